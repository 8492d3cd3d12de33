"""Play the same users against many mechanisms: exposure of each, utility for its curator, and the record of both."""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from os import PathLike
from pathlib import Path
from tempfile import gettempdir
from typing import Annotated, Any, NamedTuple

import numpy as np
import polars as pl
from pydantic import Field, computed_field

from poolscope import __version__
from poolscope.core.arguments import checked
from poolscope.core.arrays import Floats, Tick
from poolscope.core.errors import InputError, check_count, located
from poolscope.core.executors import Engine, EngineLike, as_engine
from poolscope.core.files import (
    ANOTHER,
    check_new,
    claimed,
    located_os_errors,
    nearest_folder,
    scratch_folder,
)
from poolscope.core.progress import SILENT, Progress
from poolscope.core.randomness import curator_key
from poolscope.core.tables.atomic import write_text
from poolscope.game.blocks import BlockRun, all_blocks, block_size, check_size, play_blocks_to_files, users_to_play
from poolscope.game.columns import NON_PRIVATE
from poolscope.game.game import Game
from poolscope.game.outcome_files import OutcomeFiles
from poolscope.inference.adversary import Adversary
from poolscope.mechanisms.protocols import Mechanism
from poolscope.metrics.bounds import (
    CumulativeEpsilon,
    composition_bound,
    describe_epsilons,
    devices_in_words,
    epsilon_of,
)
from poolscope.metrics.intervals import Estimate
from poolscope.metrics.leakage import log_odds_gain
from poolscope.metrics.models import (
    FORMAT,
    Count,
    Flag,
    Format,
    Real,
    Result,
    Seconds,
    UnknownReal,
    Whole,
    as_text,
    read_result,
    result,
)
from poolscope.metrics.provenance import Provenance, combined, files_checksum, provenance_of
from poolscope.metrics.records import AttackCounts, Record, counted_columns, record_of
from poolscope.metrics.tables import Records
from poolscope.metrics.text import users_in_words
from poolscope.metrics.usefulness import usefulness
from poolscope.reports.utility import measure_utility
from poolscope.scenario.attacks import AttackSpec, attack_name
from poolscope.scenario.build import build_game, build_mechanism, mechanism_changes, parameters_of, with_overrides
from poolscope.scenario.custom import custom_class, import_name, is_custom, make_custom, takes_epsilon
from poolscope.scenario.scenario import Scenario
from poolscope.workflows.audit.run_folder import PlayedScenario, input_files

FILE = "comparison.json"


@result
class LeakageRecord(Record):
    """What one adversary learns: an audit's record, and what only a comparison tells.

    Parameters
    ----------
    reports_to_50pct : how many expose half of the users at confidence `exposed_at`; infinite where they never do.
    log_odds_gain_p99 : what the reports added to the log odds of the true pool, of the user at the 99% quantile.
    """

    reports_to_50pct: Estimate
    log_odds_gain_p99: Estimate


@result
class Configuration(LeakageRecord):
    """What one adversary learns under one choice of mechanism and ε, and how well that choice serves.

    Parameters
    ----------
    mechanism, epsilon : the choice; composition_bound : n ε, which no evidence exceeds;
        with a cap or a window it is of the reports that can be linked. Where devices keep answers, the ε of an
        answer times the answers that n reports can come from, as the papers count.
    mse, rmse, mae : errors of the curator's frequencies as measured, rmse the root of mse; mse_analytical,
        rmse_analytical, mae_analytical : in closed form. None where the mechanism has no estimate.
    n_above : objects whose frequency is above twice its analytical standard error; recall_top10 : expected share of the
        ten most frequent objects in the estimated top ten, None for ten objects or fewer. None without a closed form.
    pareto_optimal : whether no other choice does as well on both error and AUC, and better on one.
    """

    mechanism: str
    epsilon: Real
    composition_bound: Real
    mse: Real | None
    mae: Real | None
    mse_analytical: Real | None
    mae_analytical: Real | None
    n_above: Whole | None = None
    recall_top10: Real | None = None
    pareto_optimal: Flag = False

    @computed_field  # type: ignore[prop-decorator]
    @property
    def rmse(self) -> UnknownReal:
        """Root of the mean squared error, which is a share as a frequency is; NaN without an estimate."""
        return math.nan if self.mse is None else math.sqrt(self.mse)

    @computed_field  # type: ignore[prop-decorator]
    @property
    def rmse_analytical(self) -> UnknownReal:
        """The same in closed form."""
        return math.nan if self.mse_analytical is None else math.sqrt(self.mse_analytical)


@result
class Comparison(Result):
    """What each choice of mechanism and ε reveals, and how accurate its estimate is.

    Parameters
    ----------
    scenario : the one that the choices vary; seed, users : who played.
    estimate_from : how many the frequency estimates are made of; n : how many of each user the adversaries saw.
    mechanisms, asked_epsilons, attacks : as they were asked for.
    results : a record for each choice and adversary, choices in the order asked for.
    non_private : the record of the same users without a mechanism, or None.
    reports_per_day : the scenario's.
    epsilons : of the choices, with their time, each once; devices : the same, the users and what devices do, in words.
    adversaries : what each knows, in words.
    seconds : how long it took; version : of poolscope that made it; format : of the file.
    provenance : what the same numbers need.

    Examples
    --------
    >>> done = ps.compare(ps.load_scenario("apple-emojis"), ["grr"], [1.0], users=20, estimate_from=1000)
    >>> done.users, done.n, done.mechanisms
    (20, 180, ('grr',))
    """

    format: Format = FORMAT
    scenario: PlayedScenario
    seed: Whole
    users: Count
    estimate_from: Count
    n: Count
    mechanisms: tuple[str, ...]
    asked_epsilons: tuple[Real, ...] = ()
    attacks: tuple[str, ...] = ()
    version: str = __version__
    reports_per_day: Real | None = None
    epsilons: tuple[CumulativeEpsilon, ...]
    devices: tuple[str, ...]
    adversaries: Mapping[str, str]
    non_private: LeakageRecord | None
    results: Annotated[Records[Configuration], Field(min_length=1)]
    seconds: Seconds
    provenance: Provenance | None = None

    def _repr_html_(self) -> str:
        return self.results.to_html()

    def write(self, out: str | PathLike[str]) -> None:
        """Put ``comparison.json`` into a folder of its own."""
        out = Path(out)
        with located_os_errors(out, ANOTHER), claimed(out):
            check_new(out)
            write_text(out / FILE, as_text(self))


def read_comparison(folder: Path) -> Comparison:
    """The comparison that lies in a folder; an ``InputError`` says what is missing or malformed."""
    return read_result(Comparison, folder / FILE)


def mark_pareto_optimal(results: Sequence[Configuration]) -> Iterator[Configuration]:
    """Yield the records, each with whether it is ``pareto_optimal``.

    Each adversary has its own frontier; a configuration without an estimate is on none.
    """
    for record in results:
        rivals = [rival for rival in results if rival.adversary == record.adversary]
        yield replace(
            record, pareto_optimal=record.mse is not None and not any(_beats(rival, record) for rival in rivals)
        )


def _beats(one: Configuration, other: Configuration) -> bool:
    if one.mse is None or other.mse is None:
        return False
    pairs = (one.mse, other.mse), (one.auc_pn.value, other.auc_pn.value)
    return all(a <= b for a, b in pairs) and any(a < b for a, b in pairs)


DEFAULT_USERS = 1000
DEFAULT_REPORTS = 100_000

OUTCOMES = ("user", "adversary", "confidence", "posterior_true")
"""Columns of the outcome table that a record needs, beside those that are counted."""


@checked
def compare(
    scenario: Scenario,
    mechanisms: Sequence[str | Callable[..., Any]],
    epsilons: Sequence[float],
    *,
    users: int | None = None,
    seed: int = 0,
    estimate_from: int = DEFAULT_REPORTS,
    observations: Sequence[int] | None = None,
    threshold: float | None = None,
    attacks: Sequence[AttackSpec] = (),
    engine: EngineLike | None = None,
    out: str | PathLike[str] | None = None,
    progress: Progress = SILENT,
) -> Comparison:
    """Compare without an HTML report: parameters are those of `poolscope.compare`."""
    engine, target = as_engine(engine), None if out is None else Path(out)
    started = time.perf_counter()
    if target is not None:
        check_new(target)
    check_count("users", users)
    check_count("estimate_from", estimate_from)
    if not scenario.adversaries and not attacks:
        raise scenario.missing("[adversary]")
    scenario = with_overrides(scenario, observations=observations, threshold=threshold)
    # build all mechanisms before the first game: a missing parameter is reported at once
    choices = list(compared_mechanisms(scenario, mechanisms, epsilons))
    results: list[LeakageRecord] = []
    epsilons_by_name: dict[str, list[CumulativeEpsilon]] = {}
    device_texts: dict[str, None] = {}
    digests: dict[str, str] = {}
    scratch_parent = nearest_folder(target.parent) if target else Path(gettempdir())
    for position, choice in enumerate(choices):
        game = build_game(choice.scenario, seed, engine.map, choice.mechanism, attacks)
        # the non-private game is the same for all mechanisms
        game = replace(game, non_private=game.non_private and position == 0)
        count = users_of(game, users, scenario)
        with located(file=scenario.file):
            long = check_size(game, count, scratch_parent, engine.threads * engine.workers, len(choices) - position)
        if position == 0:
            if long:
                warnings.warn(long, stacklevel=2)
            progress.begin(count * len(choices))
        epsilons_by_name.setdefault(choice.name, []).append(epsilon_of(game))
        device_texts |= dict.fromkeys(devices_in_words(game))
        results += _play(game, choice.name, count, seed, estimate_from, engine, scratch_parent, progress.tick, digests)
    done = Comparison(
        scenario=scenario,
        seed=seed,
        users=results[0].users,
        estimate_from=estimate_from,
        n=results[0].n,
        mechanisms=tuple(dict.fromkeys(map(import_name, mechanisms))),
        asked_epsilons=tuple(epsilons),
        attacks=tuple(map(attack_name, attacks)),
        reports_per_day=scenario.devices.reports_per_day,
        results=Records(mark_pareto_optimal([record for record in results if isinstance(record, Configuration)])),
        non_private=next((record for record in results if record.adversary == NON_PRIVATE), None),
        epsilons=tuple(dict.fromkeys(epsilon for of_one in epsilons_by_name.values() for epsilon in of_one)),
        devices=(*describe_epsilons(epsilons_by_name, game.policy), users_in_words(game), *device_texts),
        adversaries={a.name: a.phrase for a in game.adversaries},
        seconds=time.perf_counter() - started,
        provenance=provenance_of(
            seed=seed, users=results[0].users, inputs=input_files(scenario), outcomes=combined(digests)
        ),
    )
    if target is not None:
        done.write(target)
    return done


def _play(
    game: Game,
    kind: str,
    users: int,
    seed: int,
    estimate_from: int,
    engine: Engine,
    scratch_parent: Path,
    tick: Tick,
    digests: dict[str, str],
) -> Iterator[LeakageRecord]:
    """Yield the record of each adversary for one mechanism and ε; the non-private one depends on neither.

    The checksum of its outcomes joins the digests.
    """
    epsilon = float(game.mechanism.epsilon)
    utility = _utility(game, estimate_from, seed, engine)
    for name, outcomes in _outcomes(game, users, seed, engine, scratch_parent, tick, digests):
        leak = leakage_record_of(outcomes, game, seed)
        if name == NON_PRIVATE:
            yield leak
            continue
        bound = composition_bound(game)
        yield Configuration(**vars(leak), mechanism=kind, epsilon=epsilon, composition_bound=bound, **utility)


def _outcomes(
    game: Game, users: int, seed: int, engine: Engine, scratch_parent: Path, tick: Tick, digests: dict[str, str]
) -> Iterator[tuple[str, pl.DataFrame]]:
    """Yield each adversary and its outcomes after all reports; only these are held."""
    with scratch_folder(scratch_parent) as folder:
        playing = BlockRun(game=game, seed=seed, folder=folder.absolute())
        todo = all_blocks(users, block_size(game, users, engine))
        parts = sorted(playing.folder / part.name for part in play_blocks_to_files(playing, todo, engine, tick))
        outcomes = OutcomeFiles(tuple(parts))
        digests[str(len(digests))] = files_checksum(outcomes)
        for name in game.pool_counts:
            columns = outcomes.with_mcse_columns((*OUTCOMES, *counted_columns(game.threshold)))
            yield name, pl.concat(outcomes.parts((name, game.horizon), columns))


class ComparedMechanism(NamedTuple):
    """A mechanism at one ε: its name, the scenario with it, and itself."""

    name: str
    scenario: Scenario
    mechanism: Mechanism


def compared_mechanisms(
    scenario: Scenario, mechanisms: Sequence[str | Callable[..., Any]], epsilons: Sequence[float]
) -> Iterator[ComparedMechanism]:
    """Yield each mechanism at each ε; the scenario has no name for a custom one."""
    if not mechanisms:
        raise InputError("must name at least one mechanism", place="mechanism")
    for kind in dict.fromkeys(mechanisms):
        if isinstance(kind, str) and not is_custom(kind):
            for choice in variants(scenario, [kind], epsilons):
                yield ComparedMechanism(kind, choice, build_mechanism(choice, choice.universe()))
            continue
        maker = custom_class(kind)
        asked: Sequence[float | None] = list(dict.fromkeys(epsilons)) if takes_epsilon(maker) else [None]
        if not asked:
            raise InputError("must have at least one value", place="epsilon")
        for epsilon in asked:
            yield ComparedMechanism(maker.__name__, scenario, make_custom(maker, scenario.universe(), epsilon))


def variants(scenario: Scenario, mechanisms: Sequence[str], epsilons: Sequence[float]) -> Iterator[Scenario]:
    """Yield the scenario with each mechanism at each ε."""
    for kind in dict.fromkeys(mechanisms):
        noisy = "epsilon" in parameters_of(kind)
        if noisy and not epsilons:
            raise InputError("must have at least one value", place="epsilon")
        for epsilon in dict.fromkeys(epsilons) if noisy else [None]:
            yield scenario.replace(mechanism_changes(scenario, kind, epsilon))


def users_of(game: Game, users: int | None, scenario: Scenario) -> int:
    """Return how many users play: by default the scenario's, up to a thousand."""
    asked = scenario.users.count if scenario.users else None
    return users_to_play(game, users) or min(asked or DEFAULT_USERS, DEFAULT_USERS)


def _utility(game: Game, estimate_from: int, seed: int, engine: Engine) -> dict[str, Any]:
    """Return the errors of the frequency estimate; every mechanism estimates the same popularity."""
    found = measure_utility(
        game.mechanism, true_frequencies(game), estimate_from, curator_key(seed, 1 << 32), engine.map
    )
    names = ("mse", "mae", "mse_analytical", "mae_analytical")
    seen = usefulness(game.mechanism, game.universe, true_frequencies(game), estimate_from)
    recall = {one.k: one.recall for one in seen.top} if seen else {}
    return {
        **{name: asdict(found)[name] if found else None for name in names},
        "n_above": seen.n_above if seen else None,
        "recall_top10": recall.get(10),
    }


def true_frequencies(game: Game) -> Floats:
    """Return the popularity to be estimated: of recorded users, the frequencies of their objects."""
    if game.recorded is None:
        return game.popularity
    return np.bincount(game.recorded.traces.ravel(), minlength=game.universe.size).astype(np.float64)


def leakage_record_of(rows: pl.DataFrame, game: Game, seed: int) -> LeakageRecord:
    """Summarize the outcomes of one adversary: precision, exposure and leakage, each with its interval."""
    rows = rows.sort("user")
    name, n = str(rows["adversary"][0]), game.horizon
    adversary = next((a for a in game.adversaries if a.name == name), None)
    counted = AttackCounts.of(rows, n)
    return LeakageRecord(
        **vars(record_of(rows, counted, name, n, game, seed, game.threshold)),
        reports_to_50pct=counted.reports_until(0.5),
        log_odds_gain_p99=log_odds_gain(rows, _prior(adversary, game)),
    )


def _prior(adversary: Adversary | None, game: Game) -> dict[str, float]:
    """Return the prior of each hypothesis; without an adversary, that of the non-private one."""
    looking = adversary or game.reference
    return dict(zip(looking.hypotheses, looking.prior.tolist(), strict=True))
