"""A run and its folder: blocks of outcomes as they are finished, then the summary.

A block counts once its file is flushed and renamed and the manifest names it, so a run that was stopped at any moment
goes on where it was.
"""

from __future__ import annotations

import json
import shutil
import time
import warnings
from collections.abc import Iterator, Sequence
from os import PathLike
from pathlib import Path

import polars as pl

from poolscope import __version__
from poolscope.core.arguments import checked
from poolscope.core.arrays import Tick
from poolscope.core.errors import InputError, PoolscopeError, check_count, located
from poolscope.core.executors import Engine, EngineLike, as_engine
from poolscope.core.files import ANOTHER, LOCK, check_folder, check_new, claimed, unwritable
from poolscope.core.progress import SILENT, Progress
from poolscope.core.tables.atomic import is_unfinished, sweep, write_text
from poolscope.game.blocks import Playing, all_blocks, planned, play_parts, playing
from poolscope.game.columns import EXPOSED, EXPOSED_AT_THRESHOLD, NON_PRIVATE
from poolscope.game.game import Game
from poolscope.game.outcome_files import Attack, OutcomeFiles, Part, needed, part_of
from poolscope.inference.levels import DEFAULT_THRESHOLD
from poolscope.metrics.bounds import devices_in_words, epsilon_of, in_words
from poolscope.metrics.linkability import linkability
from poolscope.metrics.pools import PoolRecord, pool_records, pool_sums
from poolscope.metrics.records import Counted, Record, counted_columns, record_of
from poolscope.metrics.tables import Records
from poolscope.metrics.text import unit_of, users_in_words
from poolscope.population.behavior import NONE
from poolscope.scenario.build import as_asked, build_game
from poolscope.scenario.scenario import Scenario
from poolscope.workflows.audit.run_folder import (
    Keeper,
    Manifest,
    ScenarioText,
    Summary,
    continued,
    input_files,
    read_manifest,
)
from poolscope.workflows.audit.tables import HELD

KEPT, GO_ON = "what is finished is kept", "go on with `resume`"


@checked
def audit(
    scenario: Scenario,
    out: str | PathLike[str],
    *,
    users: int | None = None,
    seed: int = 0,
    observations: Sequence[int] | None = None,
    threshold: float | None = None,
    epsilon: float | None = None,
    mechanism: str | None = None,
    engine: EngineLike | None = None,
    resume: bool = False,
    progress: Progress = SILENT,
) -> Summary:
    """Play a scenario into a folder, without its HTML report: parameters are those of `poolscope.audit`."""
    engine, out = as_engine(engine), Path(out)
    started = time.perf_counter()
    check_count("users", users)
    check_run(out, resume)
    progress.stage("Preparing")
    scenario = as_asked(scenario, observations=observations, threshold=threshold, epsilon=epsilon, mechanism=mechanism)
    game = build_game(scenario, seed, engine.map)
    kept = read_manifest(out) if resume else None
    asked = playing(game, users or (scenario.users.count if scenario.users else None))
    plan = planned(game, asked or (kept.users if kept else None), seed, engine, out, scenario.file)
    if plan.warning:
        warnings.warn(plan.warning, stacklevel=2)
    manifest = Manifest(
        scenario=scenario.text,
        seed=seed,
        users=plan.users,
        version=__version__,
        block=kept.block if kept else plan.block,
        inputs=input_files(scenario),
    )
    if kept:
        manifest = continued(kept, manifest, out)
    progress.begin(plan.users)
    try:
        with claimed(out):
            check_run(out, resume)
            play_missing(game, manifest, out, engine, progress.tick)
            progress.stage("Summing up")
            summary = summary_of(scenario, game, manifest, OutcomeFiles.within(out / "outcomes"))
            summary = summary.model_copy(update={"seconds": round(time.perf_counter() - started, 3)})
            write_text(out / "summary.json", json.dumps(summary.as_json(), indent=1, allow_nan=False) + "\n")
    except (OSError, PoolscopeError) as error:
        raise stopped(error, out, nothing=not manifest.parts) from error
    return summary


def check_run(out: Path, resume: bool) -> None:
    """The folder of a run is new or empty, or the run's own."""
    there = (out / "manifest.json").exists()
    if resume and (there or _hardly_begun(out)):
        check_folder(out)
    elif there:
        check_new(out, what="holds another run", remedy=f"{GO_ON} or {ANOTHER}")
    else:
        check_new(out)


def _hardly_begun(out: Path) -> bool:
    """Whether a folder is what a run leaves that was stopped before its manifest: nothing that is finished."""
    found = [*out.glob("*"), *out.glob("outcomes/*")]
    return all(path.name in (LOCK, "outcomes") or is_unfinished(path) for path in found)


def play_missing(game: Game, manifest: Manifest, out: Path, engine: Engine, tick: Tick) -> None:
    """Play the blocks that are not there yet; each is on disk before it counts."""
    folder = out.absolute() / "outcomes"
    fresh = not (out / "manifest.json").exists()
    done = [block for block in all_blocks(manifest.users, manifest.block) if block.name in manifest.parts]
    if done:
        tick(sum(len(block.users) for block in done))
    todo = (block for block in all_blocks(manifest.users, manifest.block) if block.name not in manifest.parts)
    folder.mkdir(exist_ok=True)
    try:
        clear(out, manifest)
        with Keeper(manifest, out) as keeper:
            if len(done) < manifest.blocks:
                for part in play_parts(Playing(game=game, seed=manifest.seed, folder=folder), todo, engine, tick):
                    keeper.add(part)
    except (OSError, PoolscopeError):
        if fresh and not manifest.parts:
            (out / "manifest.json").unlink(missing_ok=True)
            shutil.rmtree(folder, ignore_errors=True)
        raise


def stopped(error: OSError | PoolscopeError, out: Path, nothing: bool) -> PoolscopeError:
    """What ended a run, and what to do; `nothing` was finished, or what was is kept."""
    if isinstance(error, InputError):
        return error
    if isinstance(error, OSError):
        remedy = ANOTHER if nothing else f"{KEPT}: make room and {GO_ON}"
        return unwritable(out, error, remedy)
    return PoolscopeError(f"{out}: {error}" + ("" if nothing else f"; {KEPT}: {GO_ON}"))


def clear(out: Path, manifest: Manifest) -> None:
    """Take away what does not count: files that were not finished, and blocks that the manifest does not name."""
    for folder in (out, out / "outcomes"):
        sweep(folder)
    for path in (out / "outcomes").glob("part-*.parquet"):
        if path.name not in manifest.parts:
            path.unlink()


def records_of(
    outcomes: OutcomeFiles, game: Game, manifest: Manifest, threshold: float | None
) -> Iterator[tuple[Record, list[PoolRecord]]]:
    """The record of each attack, and those of the users of each preferred pool."""
    held, counting = outcomes.extended(HELD), outcomes.extended((*counted_columns(threshold), "posterior_true"))
    own = (
        (EXPOSED[DEFAULT_THRESHOLD], DEFAULT_THRESHOLD)
        if game.threshold is None
        else (EXPOSED_AT_THRESHOLD, game.threshold)
    )
    pools = {a.name: a.universe.pool_names for a in game.adversaries}

    def kept(attack: Attack, rows: pl.DataFrame) -> tuple[Counted, Part, pl.DataFrame]:
        return Counted.of(rows, attack[1]), part_of(rows, held), pool_sums(rows, attack[1], own[0])

    def summarize_attack(
        attack: Attack, found: list[tuple[Counted, Part, pl.DataFrame]]
    ) -> tuple[Record, list[PoolRecord]]:
        counted = Counted()
        for part, _, _ in found:
            counted += part
        rows = outcomes.joined(attack, held, [part for _, part, _ in found])
        names = (*pools.get(attack[0], game.universe.pool_names), *([NONE] if game.none else []))
        by_pool = pool_records([sums for _, _, sums in found], *attack, names, own[1])
        return record_of(rows, counted, *attack, game, manifest.seed, threshold), by_pool

    attacks = [(name, n) for name in game.pool_counts for n in game.observations]
    columns = tuple(dict.fromkeys(("user", *counting, *needed(held))))
    return outcomes.map_reduce(attacks, columns, kept, summarize_attack)


def summary_of(scenario: Scenario, game: Game, manifest: Manifest, outcomes: OutcomeFiles) -> Summary:
    """The summary of a finished run; no more of the outcomes is held than memory allows."""
    descriptions = {a.name: a.phrase for a in game.adversaries}
    if game.non_private:
        descriptions[NON_PRIVATE] = "sees the objects themselves"
    with located(file=scenario.file):
        threshold = scenario.attack.threshold if scenario.attack else None
        found = list(records_of(outcomes, game, manifest, threshold))
    return Summary(
        scenario=ScenarioText(**scenario.about() | scenario.dump()),
        seed=manifest.seed,
        users=manifest.users,
        version=manifest.version,
        pools=list(game.universe.pool_names),
        horizon=game.horizon,
        unit=unit_of(game.policy),
        reports_per_day=game.policy.reports_per_day,
        epsilon=epsilon_of(game),
        devices=[
            f"{scenario.mechanism.kind}, {in_words([epsilon_of(game)], game.policy)}",
            users_in_words(game),
            *devices_in_words(game),
        ],
        adversaries=descriptions,
        results=Records(record for record, _ in found),
        pool_results=tuple(record for _, by_pool in found for record in by_pool),
        linkability=linkability(game, manifest.users, manifest.seed),
    )
