"""The pool inference game, played for blocks of users."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from math import inf
from typing import Any

import numpy as np
import polars as pl

from poolscope.core.arguments import as_floats, check_integers, checked, is_number
from poolscope.core.arrays import Floats, Integers, Tick
from poolscope.core.errors import InputError, check_count
from poolscope.core.executors import Engine, EngineLike, Local, as_engine
from poolscope.core.machine import available_memory
from poolscope.core.progress import SILENT, Progress
from poolscope.devices.policy import ReportingPolicy
from poolscope.devices.protocols import Device, Fresh, draws_fresh
from poolscope.game.columns import NON_PRIVATE
from poolscope.game.outcomes import AttackResult, Evaluator, merge_groups, table
from poolscope.game.users import BlockUsers, calibrated, check_sendable, users_of_block
from poolscope.inference.adversary import Adversary, check_adversary, n_weight_columns
from poolscope.inference.attack import attack_for
from poolscope.inference.custom import USERS_PER_CALL, as_adversary, custom_block
from poolscope.inference.independent import BlockPosteriors
from poolscope.inference.non_private import non_private_posteriors
from poolscope.mechanisms.custom import as_mechanism
from poolscope.mechanisms.protocols import Mechanism
from poolscope.population.behavior import NONE, Behavior, Change
from poolscope.population.popularity import uniform
from poolscope.population.population import Population
from poolscope.population.recorded import RecordedUsers
from poolscope.population.universe import Universe

#: Largest size of a block in bytes, and one over its largest share of the free memory; changes no bit.
BLOCK_BYTES, MEMORY_SHARE = 448 << 20, 6

#: Groups of users, each with its own estimate of the popularity, from which on each thread attacks groups of its own.
GROUPS_PER_THREAD = 2


@dataclass(frozen=True, kw_only=True, eq=False)
class Game:
    """Everything that is fixed before the first user plays.

    Parameters
    ----------
    universe, popularity, behavior : the distributions of synthetic users.
    recorded : recorded users with their objects; then nothing is drawn.
    device : what the users' devices send of the picked objects.
    policy : for which events they send it, and under which pseudonyms.
    adversaries : the attackers; all see the same reports. An attack of one's own (`Attack`) becomes an `Adversary` who
        knows popularity and behavior of the users, unless it is given as the `attack` of an adversary.
    observations : increasing counts of events at which outcomes are recorded; of reports, if all events are reported.
    sigma : perturbation of each user's own popularity.
    non_private : whether to also play the identity mechanism, with priors of the adversaries (`reference_belief`).
    threshold : a confidence at which users count as exposed, in addition to the default ones.
    population : users of one's own, instead of synthetic ones.
    habits : concentration c of each user's own popularity, which is drawn from Dirichlet(c * popularity).
    change : when how many of the users prefer another pool; the truth after n events is the pool at the n-th.

    Examples
    --------
    >>> game.horizon, game.mechanism.epsilon
    (40, 3.0)
    """

    universe: Universe
    popularity: Floats
    device: Device
    adversaries: Sequence[Any]
    observations: Sequence[int]
    behavior: Behavior = field(default_factory=Behavior)
    sigma: float = 0.0
    non_private: bool = True
    recorded: RecordedUsers | None = None
    policy: ReportingPolicy = field(default_factory=ReportingPolicy)
    threshold: float | None = None
    population: Population | None = None
    habits: float | None = None
    change: Change | None = None

    def __post_init__(self) -> None:
        check_integers("observations", self.observations, 1)
        counts = list(self.observations)
        if not counts or any(b <= a for a, b in pairwise(counts)):
            raise InputError("observations must be increasing and at least 1", value=counts)
        if not (is_number(self.sigma) and 0 <= self.sigma < inf):
            raise InputError("sigma must be finite and not negative", value=self.sigma)
        if self.threshold is not None and not (is_number(self.threshold) and 0 <= self.threshold <= 1):
            raise InputError("threshold must be a number from 0 to 1", value=self.threshold)
        for name, kind in (("universe", Universe), ("behavior", Behavior), ("policy", ReportingPolicy)):
            if not isinstance(getattr(self, name), kind):
                raise InputError(f"{name} must be a {kind.__name__}", value=getattr(self, name))
        popularity = as_floats("popularity", self.popularity)
        if popularity.shape != (self.universe.size,) or not np.all(np.isfinite(popularity) & (popularity >= 0)):
            rule = f"popularity must be a finite number of at least 0 for each of {self.universe.size} objects"
            raise InputError(rule, value=popularity.shape)
        # a mechanism alone is a device that draws every report independently
        if hasattr(self.device, "obfuscate") and not hasattr(self.device, "send"):
            object.__setattr__(self, "device", Fresh(as_mechanism(self.device, self.universe)))
        attack_for(self.device)
        self._check_users()
        known = "popularity and behavior known exactly"
        own = [as_adversary(a, self.universe, popularity, self.behavior, known=known) for a in self._listed()]
        object.__setattr__(self, "adversaries", own)
        for adversary in own:
            check_adversary(adversary)
            if adversary.universe.size != self.universe.size:
                rule = f"the universe of adversary {adversary.name!r} must have the game's {self.universe.size} objects"
                raise InputError(rule, value=adversary.universe.size)
        if self.mechanism.universe != self.universe.size:
            raise InputError(
                f"the mechanism must be for the universe's {self.universe.size} objects",
                value=self.mechanism.universe,
            )
        if self.allows_no_pool and any(NONE in a.universe.pool_names for a in self.adversaries):
            raise InputError(f"no pool may be called {NONE!r} where users may prefer none", value=NONE)
        if not isinstance(self.non_private, bool):
            raise InputError("non_private must be true or false", value=self.non_private)
        names = [a.name for a in self.adversaries] + [NON_PRIVATE] * self.non_private
        if not names or len(set(names)) < len(names):
            raise InputError("adversaries must be there and have names of their own", value=names)

    def _listed(self) -> Sequence[Any]:
        if not isinstance(self.adversaries, Sequence):
            raise InputError("adversaries must be a list", value=self.adversaries)
        return self.adversaries

    def _check_users(self) -> None:
        """Check where users come from: only synthetic ones have habits, a perturbation or a change."""
        if self.recorded is not None and not isinstance(self.recorded, RecordedUsers):
            raise InputError("recorded must be Recorded users", value=self.recorded)
        if self.population is not None and not isinstance(self.population, Population):
            remedy = "made by Population.from_traces or Population.from_function"
            raise InputError("population must be a Population", value=type(self.population).__name__, remedy=remedy)
        if self.change is not None and not isinstance(self.change, Change):
            raise InputError("change must be a Change", value=self.change)
        if self.habits is not None and not (is_number(self.habits) and 0 < self.habits < inf):
            raise InputError("habits must be finite and positive", value=self.habits)
        given = {"recorded": self.recorded, "population": self.population, "habits": self.habits or self.change}
        if sum(value is not None for value in given.values()) > 1 or (self.habits and self.sigma):
            rule = "users must be recorded, or of a population, or synthetic with habits or sigma"
            raise InputError(rule, value=[name for name, value in given.items() if value is not None])

    @property
    def mechanism(self) -> Mechanism:
        """The mechanism of a single report."""
        return self.device.mechanism

    @property
    def horizon(self) -> int:
        """The largest observation count."""
        return self.observations[-1]

    @property
    def pool_counts(self) -> dict[str, int]:
        """Number of hypotheses of each adversary of the outcome table: its pools, and none where that is one."""
        counts = {a.name: len(a.hypotheses) for a in self.adversaries}
        return counts | ({NON_PRIVATE: len(self.reference.hypotheses)} if self.non_private else {})

    @property
    def allows_no_pool(self) -> bool:
        """Whether users may prefer no pool, or an adversary assumes that they may."""
        return bool(self.behavior.none or any(a.belief.none for a in self.adversaries))

    @property
    def estimates(self) -> int:
        """Largest number of popularity estimates of an adversary; each plays against a group of users."""
        return max((1 + len(a.redraws) for a in self.adversaries), default=1)

    @property
    def reference(self) -> Adversary:
        """The non-private adversary, who sees the objects themselves."""
        belief, popularity = self.reference_belief, uniform(self.universe)
        return Adversary(name=NON_PRIVATE, universe=self.universe, popularity=popularity, belief=belief)

    @property
    def reference_belief(self) -> Behavior:
        """The priors of the non-private adversary: those of an adversary with the users' priors, else the last one's.

        With the users' own priors no attack on reports of the same objects is better on average. Adversaries with other
        pools answer another question and do not count. Without any other, the priors are uniform.
        """
        k, truth = self.universe.k, self.recorded.fitted if self.recorded else self.behavior
        beliefs: list[Behavior] = [
            a.belief for a in self.adversaries if np.array_equal(a.universe.pool_of, self.universe.pool_of)
        ]
        for belief in beliefs:
            same = np.allclose(belief.pool_prior(k), truth.pool_prior(k), rtol=0.0, atol=1e-12)
            if same and belief.polarization == truth.polarization and belief.none == truth.none:
                return belief
        return beliefs[-1] if beliefs else Behavior()

    def prior_success(self, adversary: str) -> float | None:
        """Return how often the best guess without reports is right; None for recorded users and for other pools."""
        own = next((a.universe for a in self.adversaries if a.name == adversary), self.universe)
        other = not np.array_equal(own.pool_of, self.universe.pool_of)
        if self.recorded is not None or self.population is not None or other:
            return None
        prior = self.behavior.hypothesis_prior(self.universe.k)
        if self.change is None:
            return float(prior.max())
        # who changes prefers each of the other pools equally often; the bound holds before and after the change
        k, moved = self.universe.k, prior.copy()
        moved[:k] = (prior[:k].sum() - prior[:k]) / (k - 1)
        return float(max(prior.max(), ((1 - self.change.share) * prior + self.change.share * moved).max()))

    def epsilon(self, adversary: str) -> float:
        """Return the ε of each independent report; infinite for objects, and where devices memoize."""
        fresh = draws_fresh(self.device) and adversary != NON_PRIVATE
        return float(self.mechanism.epsilon) if fresh else inf

    @property
    def block_users(self) -> int:
        """Users per block; fewer where little memory is available, as in a small container."""
        free = available_memory()
        budget = BLOCK_BYTES if free is None else min(BLOCK_BYTES, free // MEMORY_SHARE)
        return self.whole_calls(int(np.clip(budget // self.bytes_a_user, 1, attack_for(self.device).max_users)))

    def whole_calls(self, users: int) -> int:
        """Return a number of users per block, rounded up such that attacks of one's own get the same users together."""
        own = any(adversary.attack is not None for adversary in self.adversaries)
        return -(-users // USERS_PER_CALL) * USERS_PER_CALL if own else users

    @property
    def available_users(self) -> int | None:
        """The number of users that there are; None where any number can be drawn."""
        if self.population is not None:
            return self.population.size
        return None if self.recorded is None else len(self.recorded)

    @property
    def bytes_a_user(self) -> int:
        """Bytes of a user in a block: support masses and outcomes."""
        width = n_weight_columns(self.adversaries) + 4
        return 8 * self.horizon * width + 64 * len(self.observations) * len(self.pool_counts)


@checked
def play(
    game: Game,
    users: int,
    seed: int,
    *,
    engine: EngineLike | None = None,
    progress: Progress = SILENT,
) -> pl.DataFrame:
    """Return the outcomes of users 0..users-1: the same for any engine, and each user's for any number of users.

    The table is in memory; `ps.audit` plays any number of users into files.

    Examples
    --------
    >>> outcomes = ps.play(game, users=200, seed=1)
    >>> outcomes.height, outcomes["adversary"].unique().sort().to_list()
    (800, ['strong', 'non-private'])
    """
    check_count("users", users)
    engine, game = as_engine(engine), calibrated(game, seed)
    check_sendable(game, engine)
    if game.available_users is not None and users > game.available_users:
        raise InputError(f"users must be at most the {game.available_users} of the population", value=users)
    progress.begin(users)
    return in_order(play_blocks(game, blocks(users, game.block_users), seed, engine, progress.tick))


def play_blocks(game: Game, todo: Iterable[range], seed: int, engine: Engine, tick: Tick | None = None) -> pl.DataFrame:
    """Return the outcomes of blocks of users in memory, wherever the engine plays them."""
    return pl.concat(engine.tasks(_play_some, (game, seed), todo, tick))


def _play_some(shared: tuple[Game, int], users: range, engine: Local, tick: Tick) -> pl.DataFrame:
    """Play one block; the task of an executor."""
    game, seed = shared
    return play_block(game, users, seed, tick, engine)


def in_order(outcomes: pl.DataFrame) -> pl.DataFrame:
    """Sort outcomes by adversary as given, observation count, user."""
    return outcomes.sort("adversary", "n", "user", maintain_order=True)


def blocks(users: int, size: int) -> Iterator[range]:
    """Yield ranges of users of that size."""
    for start in range(0, users, size):
        yield range(start, min(start + size, users))


def play_block(
    game: Game, users: range, seed: int, tick: Tick | None = None, engine: Local | None = None
) -> pl.DataFrame:
    """Return the outcomes of some users: preferences, traces, reports, likelihoods, posteriors, guesses.

    The engine's threads share each of these steps, so that tables of a hash function are computed once for all users of
    the block. Where many groups of users each meet an estimate of the popularity of their own, each thread attacks
    groups: one has too few users for all threads.
    """
    engine, tick = engine or Local(threads=1), tick or (lambda _: None)
    game = calibrated(game, seed)
    drawn_users = users_of_block(game, users, seed, engine)
    if game.estimates == 1:
        attacked = list(_attacked(game, game.adversaries, drawn_users, game.non_private, engine, tick))
    else:
        # first, so that its kernels compile here while another process compiles that of the posteriors
        exact = list(_attacked(game, [], drawn_users, game.non_private, engine, lambda _: None))
        estimate = popularity_draw_of(np.arange(users.start, users.stop), game.estimates)
        numbers = np.unique(estimate).tolist()
        apart = len(numbers) >= GROUPS_PER_THREAD * engine.threads
        inside, one_by_one = (Local(threads=1) if apart else engine), threading.Lock()

        def count(amount: float) -> None:
            with one_by_one:
                tick(amount)

        def attack_group(number: int) -> tuple[Integers, list[AttackResult]]:
            rows = np.flatnonzero(estimate == number)
            own = [adversary.with_estimate(number) for adversary in game.adversaries]
            return rows, list(_attacked(game, own, drawn_users.some(rows), False, inside, count))

        groups = list(engine.map(attack_group, numbers) if apart else map(attack_group, numbers))
        redrawn = [bool(adversary.redraws) for adversary in game.adversaries]
        attacked = [*merge_groups(groups, estimate, redrawn), *exact]
    return table(drawn_users.names, game.observations, attacked, recorded=game.available_users is not None)


def popularity_draw_of(users: Integers, estimates: int) -> Integers:
    """Return the index of the adversaries' estimate that each user plays against, by the user's number.

    For any number of users, all estimates have nearly equal numbers of them: with G estimates, the numbers from G 2^r
    to G 2^(r+1) are cut into G runs. Long runs let the users of a block share the tables of their reports.
    """
    rounds = np.maximum(users // estimates, 1)
    power = np.floor(np.log2(rounds)).astype(np.int64)
    first = np.where(users < estimates, 0, estimates << power)
    out: Integers = (users - first) >> power
    return out


def _attacked(
    game: Game, adversaries: Sequence[Adversary], drawn_users: BlockUsers, non_private: bool, engine: Local, tick: Tick
) -> Iterator[AttackResult]:
    """Obfuscate the reported objects once, and evaluate every adversary on the same reports."""
    sent, left = drawn_users.sent, 1.0
    evaluator = Evaluator(
        keys=drawn_users.keys,
        truth=drawn_users.truth,
        sent=sent,
        observations=game.observations,
        threads=engine.map,
        tick=tick,
        threshold=game.threshold,
        none=game.allows_no_pool,
    )
    if non_private:
        # before the others: its kernels compile here while another process compiles that of the posteriors
        exact = non_private_posteriors(game.universe, sent, game.reference.belief)
        non_private_outcomes = evaluator.evaluate(game.reference, exact, 0.0 if adversaries else left)
    builtin = [adversary for adversary in adversaries if adversary.attack is None]
    found: Iterator[BlockPosteriors] = iter(())
    if builtin:
        attack = attack_for(game.device)
        found = iter(attack.posteriors(sent, drawn_users.keys, builtin, game.observations, engine, tick))
        left = 1.0 - attack.precomputed_share
    for adversary in adversaries:
        if adversary.attack is None:
            posteriors = next(found)
        else:
            who = drawn_users.keys, drawn_users.numbers
            posteriors = custom_block(adversary, game.device, sent, *who, game.observations)
        yield evaluator.evaluate(adversary, posteriors, left / len(adversaries))
    if non_private:
        yield non_private_outcomes
