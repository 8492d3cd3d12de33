"""Play a finished folder again, elsewhere, and say whether the bits agree."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from tempfile import gettempdir
from typing import Any

import polars as pl
from pydantic import computed_field

from poolscope.core.errors import InputError, located, reading
from poolscope.core.executors import Engine
from poolscope.core.files import scratch_folder
from poolscope.core.progress import Progress
from poolscope.core.tables.locations import local_paths, table_checksum
from poolscope.game.blocks import BlockRun, all_blocks, play_blocks_to_files
from poolscope.game.outcome_files import OutcomeFiles
from poolscope.metrics.models import Flag, Real, Result, Whole, result
from poolscope.metrics.provenance import Provenance, files_checksum, provenance_of
from poolscope.scenario.collections import game_of
from poolscope.scenario.custom import is_custom
from poolscope.scenario.scenario import Scenario, scenario_from_record
from poolscope.workflows.advise.advise import advise
from poolscope.workflows.advise.collection_records import CollectionsAdvice, read_advice
from poolscope.workflows.advise.collections import advise_collections
from poolscope.workflows.advise.records import FILE as ADVICE
from poolscope.workflows.advise.records import Advice
from poolscope.workflows.audit.audit import summary_of
from poolscope.workflows.audit.run_folder import FINISHED_AUDIT, Manifest, check_parts, read_manifest, read_run
from poolscope.workflows.compare import FILE as COMPARISON
from poolscope.workflows.compare import compare, read_comparison
from poolscope.workflows.sweep import FILE as SWEEP
from poolscope.workflows.sweep import RESULTS, read_sweep, sweep

UNCOMPARED = {"provenance", "seconds", "version", "format", "scenario"}
"""What records say of their making, which may differ where the numbers agree."""

UNFINISHED = "the run is not finished"

CHANGED = "the file has changed since it was played"


@result
class Rerun(Result):
    """What playing a folder again has shown.

    Parameters
    ----------
    file : whose numbers were compared; before, now : what they were made with.
    same_outcomes : whether the checksums of the outcomes agree.
    n_values, n_different : how many numbers and texts the file has, and how many of them differ.
    max_difference, place : the largest difference of two numbers, and where it is; None where no number differs.
    n_users_different : how many users have other outcomes; None where they agree, or are not kept.
    """

    file: str
    before: Provenance
    now: Provenance
    same_outcomes: Flag
    n_values: Whole
    n_different: Whole
    max_difference: Real
    place: str | None
    n_users_different: Whole | None = None

    @computed_field  # type: ignore[prop-decorator]
    @property
    def agrees(self) -> bool:
        """Whether the bits agree: outcomes, and the record that was made of them."""
        return self.same_outcomes and not self.n_different

    @computed_field  # type: ignore[prop-decorator]
    @property
    def text(self) -> str:
        """Say in one line whether the bits agree, or how far they differ and why that may be."""
        if self.agrees:
            return f"the bits agree: {self.n_values:,} values of {self.file}, outcomes {(self.now.outcomes or '')[:16]}"
        parts = []
        if not self.same_outcomes:
            users = self.n_users_different
            parts.append("the outcomes" if users is None else f"the outcomes of {users:,} of {self.now.users:,} users")
        if self.n_different:
            far = f", by at most {self.max_difference:.3g} ({self.place})" if self.place else ""
            parts.append(f"{self.n_different:,} of {self.n_values:,} values of {self.file}{far}")
        known = self.now.differences(self.before)
        known += [f"a part made with {', '.join(one.differences(self.before))}" for one in self.before.resumed_with]
        unknown = "the record was changed, or poolscope was, as versions and CPU are the same"
        why = f"this may be due to {', '.join(known)}" if known else unknown
        return f"the bits differ: {' and '.join(parts)}; {why}"


def rerun_audit(folder: Path, inputs: Path | None, engine: Engine, progress: Progress) -> Rerun:
    """Play a finished audit again into a folder of its own, block by block."""
    manifest = read_manifest(folder, FINISHED_AUDIT)
    if manifest is None or len(manifest.parts) < manifest.blocks or not (folder / "summary.json").exists():
        remedy = "go on with poolscope audit --resume first"
        raise InputError(UNFINISHED, file=folder, remedy=remedy if manifest else None)
    before = known(manifest.provenance, folder / "manifest.json")
    check_builtin([*manifest.attacks, *filter(None, [manifest.mechanism])], folder / "manifest.json")
    check_parts(manifest, folder)
    run = read_run(folder)
    if (run.summary.seed, run.summary.users, run.summary.provenance) != (manifest.seed, manifest.users, before):
        raise InputError("manifest.json and summary.json must be of one run", file=folder)
    about = run.summary.scenario.model_dump() | {"text": manifest.scenario}
    scenario = scenario_of(about, inputs, manifest.inputs, folder)
    game = game_of(scenario, manifest.seed, engine.map, attacks=manifest.attacks)
    progress.begin(manifest.users)
    with scratch_folder(Path(gettempdir())) as place:
        playing = BlockRun(game=game, seed=manifest.seed, folder=place.absolute())
        for _ in play_blocks_to_files(playing, all_blocks(manifest.users, manifest.block), engine, progress.tick):
            pass
        again = OutcomeFiles.within(place)
        digest = files_checksum(again)
        changed = None if digest == before.outcomes else _users_different(manifest, folder / "outcomes", place)
        now = provenance_of(seed=manifest.seed, users=manifest.users, inputs=manifest.inputs, outcomes=digest)
        found = summary_of(scenario, game, manifest, again).as_json()
    return compared("summary.json", run.summary.as_json(), found, before, now, n_users_different=changed)


def rerun_comparison(folder: Path, inputs: Path | None, engine: Engine, progress: Progress) -> Rerun:
    """Compare the same configurations again."""
    done = read_comparison(folder)
    before = known(done.provenance, folder / COMPARISON)
    check_builtin([*done.mechanisms, *done.attacks], folder / COMPARISON)
    scenario = scenario_of(done.scenario.about(), inputs, before.inputs, folder)
    again = compare(
        scenario,
        done.mechanisms,
        done.asked_epsilons,
        users=done.users,
        seed=done.seed,
        estimate_from=done.estimate_from,
        attacks=done.attacks,
        engine=engine,
        progress=progress,
    )
    return compared(COMPARISON, done.as_json(), again.as_json(), before, known(again.provenance, folder))


def check_builtin(names: Sequence[str], file: Path) -> None:
    """Refuse a record of custom code."""
    own = next((name for name in names if is_custom(name)), None)
    if own is not None:
        remedy = "give the command again: an object or module:Class is code, which a folder must not choose"
        raise InputError("must have built-in mechanisms and attacks alone", value=own, file=file, remedy=remedy)


def rerun_advice(folder: Path, inputs: Path | None, engine: Engine, progress: Progress) -> Rerun:
    """Ask the same question again; the folder holds copies of the files that the scenario names."""
    done = read_advice(folder)
    before, question = known(done.provenance, folder / ADVICE), done.question
    scenario = scenario_of(done.scenario.about(), inputs or folder, before.inputs, folder)
    asked: dict[str, Any] = {
        "max_exposed": question.max_exposed,
        "threshold": question.threshold,
        "horizon": question.horizon if question.days is None else None,
        "days": question.days,
        "devices": question.devices,
        "adversary": question.adversary,
        "epsilon": (question.lowest, question.highest),
        "users": done.asked_users,
        "tolerance": question.tolerance,
        "prefer": question.prefer,
        "seed": done.seed,
        "engine": engine,
        "progress": progress,
    }
    again: Advice | CollectionsAdvice
    if isinstance(done, CollectionsAdvice):
        again = advise_collections(scenario, max_error=done.question.max_errors, **asked)
    else:
        again = advise(
            scenario,
            max_error=question.max_error,
            mechanisms=question.mechanisms,
            consider=question.consider,
            mitigations=bool(done.mitigations),
            budgets=done.budgets,
            **asked,
        )
    return compared(ADVICE, done.as_json(), again.as_json(), before, known(again.provenance, folder))


def rerun_sweep(folder: Path, inputs: Path | None, engine: Engine, progress: Progress) -> Rerun:
    """Play all cells of a sweep again."""
    done = read_sweep(folder)
    before = known(done.plan.provenance, folder / SWEEP)
    if done.plan.metrics:
        remedy = "give the call again: a function is code, which a folder must not choose"
        raise InputError("must have built-in metrics alone", value=done.plan.metrics[0], file=folder, remedy=remedy)
    check_builtin(done.plan.attacks, folder / SWEEP)
    scenario = scenario_of(done.plan.scenario.about(), inputs, before.inputs, folder)
    with scratch_folder(Path(gettempdir())) as place:
        again = sweep(
            scenario,
            done.plan.vary,
            seeds=done.plan.seeds,
            users=done.plan.users,
            attacks=done.plan.attacks,
            engine=engine,
            out=place / "sweep",
            progress=progress,
        )
    now = known(again.plan.provenance, folder)
    recorded, found = ({"rows": one.results.to_dicts()} for one in (done, again))
    return compared(RESULTS, recorded, found, before, now)


def known(provenance: Provenance | None, path: Path) -> Provenance:
    """Return a provenance that has a checksum; refuse a record without one."""
    if provenance is None or provenance.outcomes is None:
        raise InputError("must have a provenance with the checksum of the outcomes", file=path)
    return provenance


def scenario_of(about: Mapping[str, Any], inputs: Path | None, checksums: Mapping[str, str], folder: Path) -> Scenario:
    """Return a recorded scenario whose files are those that were played, in the folder `inputs` or where they were.

    The path of the scenario is as it was given, in a directory that is not recorded: the current one, or often one of
    those that `folder`, the output, is in.
    """
    file = Path(about["file"])
    above = [file, *(parent / file for parent in folder.resolve().parents)]
    errors = []
    for place in dict.fromkeys(above if inputs is None else [inputs / file.name]):
        scenario = scenario_from_record({**about, "file": str(place)})
        try:
            _check_inputs(scenario, checksums)
        except InputError as error:
            errors.append(error)
        else:
            return scenario
    raise next((error for error in errors if CHANGED in str(error)), errors[0])


def _check_inputs(scenario: Scenario, checksums: Mapping[str, str]) -> None:
    """Check that the files that a scenario names are those that were played."""
    for name in scenario.named_files:
        path = scenario.resolve(name)
        if not any(file.exists() for file in local_paths(path)):
            raise InputError("there is no such file", file=path, remedy="say with `inputs` in which folder it is")
        with reading(path):
            found = table_checksum(path)
        if found != checksums.get(name):
            remedy = "say with `inputs` in which folder the file is that was played"
            raise InputError(CHANGED, file=path, remedy=remedy)


def compared(
    file: str,
    recorded: Mapping[str, Any],
    again: Mapping[str, Any],
    before: Provenance,
    now: Provenance,
    *,
    n_users_different: int | None = None,
) -> Rerun:
    """Compare two records of a file, number by number."""
    mine, theirs = dict(_values(again)), dict(_values(recorded))
    places = [place for place in {**theirs, **mine} if mine.get(place) != theirs.get(place)]
    gaps = {place: _gap(mine.get(place), theirs.get(place)) for place in places}
    worst = max((place for place, gap in gaps.items() if gap is not None), key=lambda p: gaps[p] or 0.0, default=None)
    return Rerun(
        file=file,
        before=before,
        now=now,
        same_outcomes=before.outcomes == now.outcomes,
        n_values=len(theirs),
        n_different=len(places),
        max_difference=0.0 if worst is None else gaps[worst] or 0.0,
        place=worst,
        n_users_different=n_users_different,
    )


def _values(record: Any, place: str = "") -> Iterator[tuple[str, Any]]:
    """Every number and text of a record with its place, but for `UNCOMPARED`."""
    if isinstance(record, Mapping):
        for key, value in record.items():
            if place or key not in UNCOMPARED:
                yield from _values(value, f"{place}.{key}" if place else key)
    elif isinstance(record, list | tuple):
        for index, value in enumerate(record):
            yield from _values(value, f"{place}.{index}")
    else:
        yield place, record


def _gap(one: Any, other: Any) -> float | None:
    """The difference of two numbers; None where one is no number."""
    both = (one, other)
    if any(isinstance(value, bool) or not isinstance(value, int | float) for value in both):
        return None
    return abs(one - other) if all(map(math.isfinite, both)) else math.inf


def _users_different(manifest: Manifest, before: Path, now: Path) -> int:
    """Count the users who have other outcomes, block by block."""
    changed = 0
    for name in manifest.parts:
        with located(file=before / name):
            one, other = (pl.read_parquet(folder / name) for folder in (before, now))
            if one.shape != other.shape or one.columns != other.columns:
                raise InputError("must have the columns and rows of a game that is played now", value=one.shape)
        differs = [one[column].ne_missing(other[column]) for column in one.columns]
        rows = pl.DataFrame(differs).select(pl.any_horizontal(pl.all())).to_series()
        changed += one["user"].filter(rows).n_unique()
    return changed
