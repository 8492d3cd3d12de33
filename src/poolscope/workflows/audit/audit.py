"""Play the game of a scenario into a run folder: blocks of outcomes as they finish, then the summary.

A block counts once its file is flushed and renamed and the manifest names it. A run that was interrupted at any moment
resumes there.
"""

from __future__ import annotations

import shutil
import time
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import replace
from os import PathLike
from pathlib import Path
from typing import Any

import polars as pl

from poolscope import __version__
from poolscope.core.arguments import checked
from poolscope.core.arrays import Tick
from poolscope.core.errors import InputError, PoolscopeError, check_count, located
from poolscope.core.executors import Engine, EngineLike, as_engine
from poolscope.core.files import ANOTHER, LOCK, check_folder, check_new, claimed, unwritable
from poolscope.core.progress import SILENT, Progress
from poolscope.core.tables.atomic import is_unfinished, sweep, write_text
from poolscope.game.blocks import AnyGame, BlockRun, all_blocks, plan_blocks, play_blocks_to_files, users_to_play
from poolscope.game.collections import AttributeGame, JointGame
from poolscope.game.columns import EXPOSED, EXPOSED_AT_THRESHOLD, NON_PRIVATE
from poolscope.game.game import Game
from poolscope.game.outcome_files import AttackKey, AttackRows, OutcomeFiles, attack_rows, needed
from poolscope.inference.thresholds import DEFAULT_THRESHOLD
from poolscope.metrics.bounds import describe_epsilon, devices_in_words, epsilon_of
from poolscope.metrics.linkability import linkability
from poolscope.metrics.models import as_text
from poolscope.metrics.pools import PoolRecord, pool_records, pool_sums
from poolscope.metrics.provenance import files_checksum, provenance_of
from poolscope.metrics.records import AttackCounts, Record, counted_columns, record_of
from poolscope.metrics.tables import Records
from poolscope.metrics.text import unit_of, users_in_words
from poolscope.population.behavior import NONE
from poolscope.scenario.attacks import AttackSpec, attack_name
from poolscope.scenario.build import with_overrides
from poolscope.scenario.collections import game_of
from poolscope.scenario.custom import import_name, own_mechanism
from poolscope.scenario.scenario import Scenario
from poolscope.workflows.audit.collections import joint_summary_of
from poolscope.workflows.audit.figure_data import HELD
from poolscope.workflows.audit.run_folder import (
    Manifest,
    ManifestWriter,
    ScenarioText,
    Summary,
    input_files,
    read_manifest,
    resume_manifest,
)

FINISHED, CONTINUE = "finished blocks are saved", "continue with `resume`"


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
    mechanism: Any = None,
    attacks: Sequence[AttackSpec] = (),
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
    own = own_mechanism(mechanism, scenario, epsilon)
    scenario = with_overrides(
        scenario, observations=observations, threshold=threshold, epsilon=epsilon, mechanism=mechanism
    )
    game = game_of(scenario, seed, engine.map, own, attacks)
    previous = read_manifest(out) if resume else None
    asked = users_to_play(game, users or (scenario.users.count if scenario.users else None))
    plan = plan_blocks(game, asked or (previous.users if previous else None), seed, engine, out, scenario.file)
    if plan.warning:
        warnings.warn(plan.warning, stacklevel=2)
    inputs = input_files(scenario)
    manifest = Manifest(
        scenario=scenario.text,
        seed=seed,
        users=plan.users,
        version=__version__,
        block=previous.block if previous else plan.block,
        inputs=inputs,
        attacks=[attack_name(attack) for attack in attacks],
        mechanism=None if own is None else import_name(mechanism),
        provenance=provenance_of(seed=seed, users=plan.users, inputs=inputs),
    )
    if previous:
        manifest = resume_manifest(previous, manifest, out)
    progress.begin(plan.users)
    try:
        with claimed(out):
            check_run(out, resume)
            play_missing(game, manifest, out, engine, progress.tick)
            progress.stage("Summarizing")
            outcomes = OutcomeFiles.within(out / "outcomes")
            manifest = with_checksum(manifest, outcomes)
            manifest.write(out)
            summary = summary_of(scenario, game, manifest, outcomes)
            summary = replace(summary, seconds=round(time.perf_counter() - started, 3))
            write_text(out / "summary.json", as_text(summary))
    except (OSError, PoolscopeError) as error:
        raise interruption_error(error, out, nothing=not manifest.parts) from error
    return summary


def with_checksum(manifest: Manifest, outcomes: OutcomeFiles) -> Manifest:
    """Return the manifest of a finished run, with the checksum of its outcomes."""
    known = manifest.provenance or provenance_of(seed=manifest.seed, users=manifest.users, inputs=manifest.inputs)
    return replace(manifest, provenance=replace(known, outcomes=files_checksum(outcomes)))


def check_run(out: Path, resume: bool) -> None:
    """Refuse a folder that is neither new nor empty, nor the run's own where it is resumed."""
    there = (out / "manifest.json").exists()
    if resume and (there or _has_no_manifest_yet(out)):
        check_folder(out)
    elif there:
        check_new(out, what="holds another run", remedy=f"{CONTINUE} or {ANOTHER}")
    else:
        check_new(out)


def _has_no_manifest_yet(out: Path) -> bool:
    """Return whether a folder is that of a run interrupted before its manifest: nothing is finished."""
    found = [*out.glob("*"), *out.glob("outcomes/*")]
    return all(path.name in (LOCK, "outcomes") or is_unfinished(path) for path in found)


def play_missing(game: AnyGame, manifest: Manifest, out: Path, engine: Engine, tick: Tick) -> None:
    """Play the missing blocks; each is on disk before it counts."""
    folder = out.absolute() / "outcomes"
    fresh = not (out / "manifest.json").exists()
    done = [block for block in all_blocks(manifest.users, manifest.block) if block.name in manifest.parts]
    if done:
        tick(sum(len(block.users) for block in done))
    todo = (block for block in all_blocks(manifest.users, manifest.block) if block.name not in manifest.parts)
    folder.mkdir(exist_ok=True)
    try:
        delete_unfinished(out, manifest)
        with ManifestWriter(manifest, out) as keeper:
            if len(done) < manifest.blocks:
                for part in play_blocks_to_files(
                    BlockRun(game=game, seed=manifest.seed, folder=folder), todo, engine, tick
                ):
                    keeper.add(part)
    except (OSError, PoolscopeError):
        if fresh and not manifest.parts:
            (out / "manifest.json").unlink(missing_ok=True)
            shutil.rmtree(folder, ignore_errors=True)
        raise


def interruption_error(error: OSError | PoolscopeError, out: Path, nothing: bool) -> PoolscopeError:
    """Return the error of an interrupted run, with its remedy; `nothing` says that no block was finished."""
    if isinstance(error, InputError):
        return error
    if isinstance(error, OSError):
        remedy = ANOTHER if nothing else f"{FINISHED}: free disk space and {CONTINUE}"
        return unwritable(out, error, remedy)
    return PoolscopeError(f"{out}: {error}" + ("" if nothing else f"; {FINISHED}: {CONTINUE}"))


def delete_unfinished(out: Path, manifest: Manifest) -> None:
    """Delete what does not count: unfinished files, and blocks that the manifest does not name."""
    for folder in (out, out / "outcomes"):
        sweep(folder)
    for path in (out / "outcomes").glob("part-*.parquet"):
        if path.name not in manifest.parts:
            path.unlink()


def records_of(
    outcomes: OutcomeFiles, game: Game | AttributeGame, manifest: Manifest, threshold: float | None
) -> Iterator[tuple[Record, list[PoolRecord]]]:
    """Yield the record of each attack, and those of the users of each preferred pool."""
    held, counting = (
        outcomes.with_mcse_columns(HELD),
        outcomes.with_mcse_columns((*counted_columns(threshold), "posterior_true")),
    )
    own = (
        (EXPOSED[DEFAULT_THRESHOLD], DEFAULT_THRESHOLD)
        if game.threshold is None
        else (EXPOSED_AT_THRESHOLD, game.threshold)
    )
    pools = {a.name: a.universe.pool_names for a in game.adversaries}

    def reduced(attack: AttackKey, rows: pl.DataFrame) -> tuple[AttackCounts, AttackRows, pl.DataFrame]:
        return AttackCounts.of(rows, attack[1]), attack_rows(rows, held), pool_sums(rows, attack[1], own[0])

    def summarize_attack(
        attack: AttackKey, found: list[tuple[AttackCounts, AttackRows, pl.DataFrame]]
    ) -> tuple[Record, list[PoolRecord]]:
        counted = AttackCounts()
        for part, _, _ in found:
            counted += part
        rows = outcomes.joined(attack, held, [part for _, part, _ in found])
        names = (*pools.get(attack[0], game.universe.pool_names), *([NONE] if game.allows_no_pool else []))
        by_pool = pool_records([sums for _, _, sums in found], *attack, names, own[1])
        return record_of(rows, counted, *attack, game, manifest.seed, threshold), by_pool

    attacks = [(name, n) for name in game.pool_counts for n in game.observations]
    columns = tuple(dict.fromkeys(("user", *counting, *needed(held))))
    return outcomes.map_reduce(attacks, columns, reduced, summarize_attack)


def summary_of(scenario: Scenario, game: AnyGame, manifest: Manifest, outcomes: OutcomeFiles) -> Summary:
    """Summarize a finished run, with bounded memory."""
    if isinstance(game, JointGame):
        return joint_summary_of(scenario, game, manifest, outcomes)
    descriptions = {a.name: a.phrase for a in game.adversaries}
    if game.non_private:
        descriptions[NON_PRIVATE] = "sees the objects themselves"
    with located(file=scenario.file):
        threshold = scenario.attack.threshold if scenario.attack else None
        found = list(records_of(outcomes, game, manifest, threshold))
    kind = (manifest.mechanism or scenario.mechanism.kind).rpartition(":")[2]
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
            f"{kind}, {describe_epsilon([epsilon_of(game)], game.policy)}",
            users_in_words(game),
            *devices_in_words(game),
        ],
        adversaries=descriptions,
        results=Records(record for record, _ in found),
        pool_results=tuple(record for _, by_pool in found for record in by_pool),
        linkability=linkability(game, manifest.users, manifest.seed),
        provenance=manifest.provenance,
    )
