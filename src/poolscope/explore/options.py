"""Play other mechanisms and measures with the users of a setting, as rows of the table of options of `advise`.

All options have the devices, adversary, threshold and users of the setting, so that its own row equals its results.
"""

from __future__ import annotations

import json
import threading
import time
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np

from poolscope.core.errors import InputError, did_you_mean
from poolscope.core.executors import Local
from poolscope.explore.answers import FIRST_MEMOIZED_SAMPLE, Games, Sample, curator_error, errors_of, rms
from poolscope.game.game import Game
from poolscope.metrics.bounds import epsilon_of, memoized_by
from poolscope.scenario.build import build_device, build_mechanism, build_policy
from poolscope.scenario.scenario import Scenario
from poolscope.workflows.advise.options import mark_pareto_optimal
from poolscope.workflows.advise.prices import describe_price
from poolscope.workflows.advise.question import CAP, MEASURES, MEMOIZE, question_of
from poolscope.workflows.advise.records import Option
from poolscope.workflows.advise.search import NO, UNDECIDED, YES, min_epsilon_for_error, verdict
from poolscope.workflows.advise.setups import deployed, describe_parameters, name_of, names_of, order_of, split_name
from poolscope.workflows.compare import true_frequencies

OPTION_USERS = (256, 1000)
"""Users of an option, in successive tables."""

MEMOIZED_OPTION_USERS = (FIRST_MEMOIZED_SAMPLE, 48, *OPTION_USERS)

OPTION_PATIENCE = 8.0
"""Largest expected time of more users of an option, in seconds."""

SAME = SAME_EPSILON, SAME_ERROR = "epsilon", "error"
"""What options have in common with the setting."""

EPSILONS = (0.1, 16.0)
"""Range in which an epsilon of the same error is searched."""

ROUNDING = 1e-9
"""Relative difference of errors that are equal."""

MAX_TABLES = 16
"""Largest number of cached tables."""

DEFAULT_EPSILON = 1.0
"""Epsilon of options where the setting's mechanism has none."""


class PlayedOption(NamedTuple):
    """An option without its verdict, and the cap of its devices; None without one."""

    option: Option
    cap: int | None


@dataclass(frozen=True, kw_only=True)
class OptionTable:
    """Options that have been played, the setting's own first.

    Parameters
    ----------
    rows : with verdict and price; pending : how many options have not been played yet.
    notes : why others cannot be.
    adversary, n : who attacks, after how many events; target : the share of users who may be exposed.
    """

    rows: tuple[PlayedOption, ...]
    pending: int
    notes: tuple[str, ...]
    adversary: str
    n: int
    target: float


@dataclass(frozen=True, kw_only=True)
class OptionQuestion:
    """What is asked: a scenario as it is played, after n events, the target share of exposed users, what is equal."""

    scenario: Scenario
    n: int
    seed: int
    target: float
    same: str = SAME_EPSILON

    def __post_init__(self) -> None:
        if self.same not in SAME:
            raise InputError(
                "must be what options have in common",
                value=self.same,
                place="same",
                remedy=did_you_mean(self.same, SAME),
            )

    @property
    def key(self) -> str:
        """What the plays depend on: all but the target."""
        return json.dumps([self.scenario.file, self.scenario.text, self.n, self.seed, self.same])


@dataclass
class OptionTables:
    """Plays options; finished ones are cached, so that another target is answered at once."""

    games: Games
    _played: OrderedDict[str, tuple[list[PlayedOption], list[str]]] = field(default_factory=OrderedDict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def tables(self, question: OptionQuestion, engine: Local) -> Iterator[OptionTable]:
        """Yield the table after every option that was played, then with more users."""
        scenario = question.scenario
        asked = question_of(scenario, max_exposed=question.target, horizon=question.n)
        with self._lock:
            known = self._played.get(question.key)
        if known is not None:
            yield _table(question, asked.adversary, *known)
            return
        names = candidate_names(scenario, asked.mechanisms, question.n, question.target)
        own = OptionPlay(question=question, name=names[0], adversary=asked.adversary, games=self.games, engine=engine)
        plays = [own, *(replace(own, name=name, reference=own) for name in names[1:])]
        found: dict[str, PlayedOption] = {}
        notes: dict[str, str] = {}
        for times in range(max(len(OPTION_USERS), len(MEMOIZED_OPTION_USERS))):
            for play in plays:
                if play.name in notes:
                    continue
                try:
                    if not play.grow(times):
                        continue
                    found[play.name] = play.option()
                except InputError as error:
                    if play is own:
                        raise
                    notes[play.name] = f"{play.name} was not played: {error}."
                pending = len(plays) - len(found) - len(notes)
                yield _table(question, asked.adversary, list(found.values()), list(notes.values()), pending)
        with self._lock:
            self._played[question.key] = list(found.values()), list(notes.values())
            while len(self._played) > MAX_TABLES:
                self._played.popitem(last=False)


@dataclass(kw_only=True)
class OptionPlay:
    """One option and the users who have played it; `reference` is that of the setting, None for itself."""

    question: OptionQuestion
    name: str
    adversary: str
    games: Games
    engine: Local
    reference: OptionPlay | None = None
    _sample: Sample | None = None
    _game: Game | None = None
    _scenario: Scenario | None = None
    _pace: float = 0.0

    def grow(self, times: int) -> bool:
        """Play more users for the given time from 0; return whether there are more than before."""
        if self._game is None:
            self._scenario = self._deployed()
            self._game = self.games.against(self._scenario, self.question.seed, self.adversary, self.engine)
            self._sample = Sample(self._game, self.question.n, self.question.seed, self.engine)
        assert self._sample is not None
        sizes = MEMOIZED_OPTION_USERS if self._game.device.memoizes else OPTION_USERS
        had = self._sample.users
        if times >= len(sizes) or self._pace * (sizes[times] - had) > OPTION_PATIENCE:
            return False
        started = time.perf_counter()
        self._sample.grow(sizes[times])
        self._pace = (time.perf_counter() - started) / max(1, self._sample.users - had)
        return self._sample.users > had

    def option(self) -> PlayedOption:
        """Return the option as the users so far experience it."""
        game, scenario, sample, n = self._game, self._scenario, self._sample, self.question.n
        assert game is not None
        assert scenario is not None
        assert sample is not None
        spent, reports, memoized = epsilon_of(game), game.policy.mean_reports(n), memoized_by(game.device)
        mechanism, measure = split_name(self.name)
        option = Option(
            mechanism=mechanism,
            measure=measure,
            parameters=describe_parameters(scenario, self.name),
            epsilon=spent.report,
            cumulative_epsilon=spent,
            total_epsilon=spent.report * reports if memoized is None else memoized.spent(reports),
            reports=reports,
            cap=game.policy.cap or n,
            users=sample.users,
            seed=self.question.seed,
            observations=tuple(game.observations),
            exposed=sample.record(self.adversary).exposed_share,
            rmse=curator_error(game, n)["rmse"],
            meets_targets=UNDECIDED,
        )
        return PlayedOption(option, game.policy.cap)

    def _deployed(self) -> Scenario:
        """Return the scenario of the option, which is attacked up to n."""
        question = self.question
        base = question.scenario
        assert base.attack is not None
        counts = [n for n in base.attack.observations if n <= question.n]
        base = base.replace({"attack.observations": counts, "attack.non_private": None})
        if self.reference is None:
            return base
        epsilon = base.mechanism.epsilon or DEFAULT_EPSILON
        if question.same == SAME_ERROR:
            assert self.reference._game is not None
            epsilon = epsilon_of_same_error(base, self.name, self.reference._game, question.n)
        return deployed(base, self.name, epsilon, question.n)


def candidate_names(scenario: Scenario, mechanisms: Sequence[str], n: int, target: float) -> list[str]:
    """Return the setting's own mechanism, the same with measures, then the others; memoization is slow and last."""
    own = scenario.mechanism.kind
    alone = question_of(scenario, max_exposed=target, horizon=n, mechanisms=[own], consider=MEASURES)
    names = list(names_of(scenario, alone))
    few = scenario.devices.cap
    if few is not None and few <= n * scenario.devices.sampling_rate / 3:
        names = [name for name in names if name != name_of(own, CAP)]
    others = sorted((kind for kind in mechanisms if kind != own), key=lambda kind: order_of(kind, own))
    slow = name_of(own, MEMOIZE)
    return [*(name for name in names if name != slow), *others, *(name for name in names if name == slow)]


def epsilon_of_same_error(scenario: Scenario, name: str, own: Game, n: int) -> float:
    """Return the smallest ε at which an option of a scenario has the error of its own game."""
    popularity, target = true_frequencies(own), curator_error(own, n)["rmse"]
    if target is None:
        raise InputError("the setting has no analytical error")

    def rmse(epsilon: float) -> float:
        variant = deployed(scenario, name, epsilon, n)
        mechanism = build_mechanism(variant, variant.universe())
        each, memoizes = build_policy(variant).mean_reports(n), build_device(variant, mechanism).memoizes
        errors = errors_of(mechanism, popularity, each, memoizes)
        if errors is None:
            raise InputError("it has no analytical error")
        return rms(errors)

    same = scenario.mechanism.epsilon
    if same is not None and abs(rmse(same) - target) <= ROUNDING * target:
        return same
    found = min_epsilon_for_error(rmse, target * (1 + ROUNDING), *EPSILONS)
    if found is None:
        raise InputError(f"its RMSE is above {target:.2g} up to an epsilon of {EPSILONS[1]:g}")
    return found


def _table(
    question: OptionQuestion, adversary: str, played: list[PlayedOption], notes: list[str], pending: int = 0
) -> OptionTable:
    """Return the table with verdicts, marks and prices."""
    judged = [replace(one.option, meets_targets=verdict(one.option.exposed, question.target)) for one in played]
    own, *_ = judged
    caps = {one.option.name: one.cap for one in played}
    rank = {YES: 0, UNDECIDED: 1, NO: 2}
    marked = [
        # the verdict is a column of its own
        replace(
            one,
            price="" if one.name == own.name else describe_price(replace(one, meets_targets=own.meets_targets), own),
        )
        for one in mark_pareto_optimal(judged)
    ]
    first, *others = marked
    others.sort(key=lambda one: (rank[one.meets_targets], np.inf if one.rmse is None else one.rmse))
    rows = tuple(PlayedOption(one, caps[one.name]) for one in (first, *others))
    return OptionTable(
        rows=rows, pending=pending, notes=tuple(notes), adversary=adversary, n=question.n, target=question.target
    )
