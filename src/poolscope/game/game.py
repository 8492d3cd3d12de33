"""The pool inference game, played for blocks of users."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np
import polars as pl
from numpy.typing import NDArray

from poolscope.attack.adversary import Adversary, posterior_block, views
from poolscope.attack.memory.posteriors import kept_answers
from poolscope.attack.non_private import non_private_posterior
from poolscope.base.arrays import Floats, Keys, Map, Tick
from poolscope.base.engines import Engine, Local
from poolscope.base.errors import InputError
from poolscope.base.randomness import Stream, children, report_keys, user_keys
from poolscope.game.columns import NON_PRIVATE, REACHED
from poolscope.game.outcomes import Attacked, table
from poolscope.kernels import decide as kernels
from poolscope.mechanisms.devices import memoised
from poolscope.mechanisms.role import Mechanism
from poolscope.reports.shares import played
from poolscope.world.behaviour import Behaviour
from poolscope.world.popularity import uniform, within_pools
from poolscope.world.recorded import Recorded
from poolscope.world.synthetic import Users, draw_traces, draw_users
from poolscope.world.universe import Universe

#: Bytes of support masses that a block holds; bounds the memory, changes no bit.
BLOCK_BYTES = 320 << 20

#: Users of a block at most; more would save nothing.
MOST_USERS = 16384

#: Users whose posteriors after every report are held at once, by each thread.
CHUNK = 256

#: The same where devices have memory, and users of a block: there a user takes a tenth of a second and more.
MEMORY_CHUNK, MEMORY_USERS = 8, 512

#: Parts of a block's reports for each thread: some take longer than others.
PARTS = 4

#: Preferred pool, relevant interest and polarization of each user, with respect to an adversary's pools.
Preferences = tuple[NDArray[np.int64], Floats, Floats]
Truth = Callable[[Universe], Preferences]

#: Some users of a block -> their posteriors after every report, (users, n + 1, k).
Posteriors = Callable[[slice], Floats]


@dataclass(frozen=True, kw_only=True, eq=False)
class Game:
    """Everything that is fixed before the first user plays.

    Parameters
    ----------
    universe, popularity, behaviour : the truth that synthetic users draw from.
    recorded : users who are there already, with what they picked; then nothing is drawn.
    mechanism : what the devices do to an object.
    memory : whether they keep one answer for each object (`memoised`), or draw every report anew.
    adversaries : who attacks; all see the same reports.
    observations : increasing report counts at which outcomes are kept.
    sigma : perturbation of each user's own popularity.
    non_private : whether to play the identity mechanism beside.
    """

    universe: Universe
    popularity: Floats
    mechanism: Mechanism
    adversaries: Sequence[Adversary]
    observations: Sequence[int]
    behaviour: Behaviour = field(default_factory=Behaviour)
    sigma: float = 0.0
    non_private: bool = True
    recorded: Recorded | None = None
    memory: bool = False

    def __post_init__(self) -> None:
        counts = list(self.observations)
        if not counts or counts[0] < 1 or any(b <= a for a, b in pairwise(counts)):
            raise InputError("observations must be increasing and at least 1", value=counts)
        if not (np.isfinite(self.sigma) and self.sigma >= 0):
            raise InputError("sigma must be finite and not negative", value=self.sigma)
        if self.mechanism.universe != self.universe.size:
            raise InputError(
                f"the mechanism must be for the universe's {self.universe.size} objects",
                value=self.mechanism.universe,
            )
        names = [a.name for a in self.adversaries] + [NON_PRIVATE] * self.non_private
        if not names or len(set(names)) < len(names):
            raise InputError("adversaries must be there and have names of their own", value=names)

    @property
    def horizon(self) -> int:
        """The largest observation count."""
        return self.observations[-1]

    @property
    def pool_counts(self) -> dict[str, int]:
        """Number of pools of each adversary of the outcome table."""
        counts = {a.name: a.k for a in self.adversaries}
        return counts | ({NON_PRIVATE: self.universe.k} if self.non_private else {})

    @property
    def block_users(self) -> int:
        """Users to a block."""
        width = sum(a.k + 1 for a in self.adversaries) + 4
        most = MEMORY_USERS if self.memory else MOST_USERS
        return int(np.clip(BLOCK_BYTES // (8 * self.horizon * width), 16, most))


def play(
    game: Game,
    users: int,
    seed: int,
    *,
    engine: Engine | None = None,
    tick: Tick | None = None,
) -> pl.DataFrame:
    """Outcomes of users 0..users-1: the same for any engine, and for any user whatever their number.

    The table is held in memory; `run.audit` plays any number of users into files.
    """
    if users < 1:
        raise InputError("users must be at least 1", value=users)
    engine = engine or Local()
    return in_order(pl.concat(engine.tasks(_play_some, (game, seed), blocks(users, game.block_users), tick)))


def _play_some(shared: tuple[Game, int], users: range, engine: Local, tick: Tick) -> pl.DataFrame:
    game, seed = shared
    return play_block(game, users, seed, tick, engine)


def in_order(outcomes: pl.DataFrame) -> pl.DataFrame:
    """By adversary as given, observation count, user."""
    return outcomes.sort("adversary", "n", "user", maintain_order=True)


def blocks(users: int, size: int) -> Iterator[range]:
    """Users in blocks of that size."""
    for start in range(0, users, size):
        yield range(start, min(start + size, users))


def play_block(
    game: Game, users: range, seed: int, tick: Tick | None = None, engine: Local | None = None
) -> pl.DataFrame:
    """Outcomes of some users: truth, traces, reports, likelihoods, posteriors, guesses.

    The engine's threads share each of these steps, so that what a hash function's reports have in common is tabulated
    once for all users of the block.
    """
    engine = engine or Local(threads=1)
    keys = user_keys(seed, np.arange(users.start, users.stop))
    if game.recorded:
        some = game.recorded[users]
        ids, traces = some.names, some.traces[:, : game.horizon]
        truth: Truth = some.preferences
    else:
        drawn = draw_users(game.universe, game.behaviour, keys)
        ids = pl.Series(np.arange(users.start, users.stop, dtype=np.int64))
        traces = draw_traces(game.universe, game.popularity, drawn, game.horizon, sigma=game.sigma, run=engine.map)

        def truth(universe: Universe) -> Preferences:
            return preferences(game, universe, drawn)

    attacked = _attack_traces(game, keys, np.ascontiguousarray(traces), truth, tick or (lambda _: None), engine)
    return table(ids, game.observations, attacked, recorded=game.recorded is not None)


def _attack_traces(
    game: Game, keys: Keys, traces: NDArray[np.int64], truth: Truth, tick: Tick, engine: Local
) -> list[Attacked]:
    """Obfuscate the traces once and let every adversary attack the same reports."""
    users, n = traces.shape
    lengths = np.full(users, n, dtype=np.int64)
    attacked = []
    if game.adversaries:
        found = (_kept_answers if game.memory else _fresh_answers)(game, traces, keys, engine)
        left = 1.0 if game.memory else 0.5
        tick((1.0 - left) * users)
        for adversary, posteriors in zip(game.adversaries, found, strict=True):
            share = left / len(game.adversaries)
            attacked.append(
                _decide(game, adversary.name, adversary, keys, truth, lengths, posteriors, tick, share, engine.map)
            )
    if game.non_private:
        first = Adversary(name=NON_PRIVATE, universe=game.universe, popularity=uniform(game.universe))

        def shown(rows: slice) -> Floats:
            return non_private_posterior(game.universe, traces[rows], lengths[rows])

        share = 0.0 if game.adversaries else 1.0
        attacked.append(_decide(game, NON_PRIVATE, first, keys, truth, lengths, shown, tick, share, engine.map))
    return attacked


def _fresh_answers(game: Game, traces: NDArray[np.int64], keys: Keys, engine: Local) -> list[Posteriors]:
    """What each adversary makes of reports that are drawn anew: the support masses of all of them, once."""
    users, n = traces.shape
    view, columns = views(game.adversaries)
    reports = report_keys(keys, 0, n).ravel()
    mass = played(game.mechanism, traces.ravel(), reports, view, engine.map, PARTS * engine.threads)
    mass, lengths = mass.reshape(users, n, view.width), np.full(users, n, dtype=np.int64)

    def of(adversary: Adversary, part: NDArray[np.int64]) -> Posteriors:
        return lambda rows: posterior_block(game.mechanism, adversary, mass[rows, :, part], lengths[rows])

    return [of(adversary, part) for adversary, part in zip(game.adversaries, columns, strict=True)]


def _kept_answers(game: Game, traces: NDArray[np.int64], keys: Keys, engine: Local) -> list[Posteriors]:
    """The same of devices that keep their answers."""
    memory = memoised(game.mechanism)
    return [kept_answers(memory, traces, keys, adversary, game.observations) for adversary in game.adversaries]


def _decide(
    game: Game,
    name: str,
    adversary: Adversary,
    keys: Keys,
    preferred: Truth,
    lengths: NDArray[np.int64],
    posteriors: Posteriors,
    tick: Tick,
    share: float,
    run: Map,
) -> Attacked:
    """Guesses of one adversary, a chunk of users at a time."""
    count, observations = len(keys), np.asarray(game.observations, dtype=np.int64)
    thresholds = np.array(list(REACHED))
    truth, gamma, delta = preferred(adversary.universe)
    guess = np.empty((count, len(observations)), dtype=np.int64)
    confidence, of_truth = np.empty((2, count, len(observations)))
    reached = np.empty((count, len(thresholds)), dtype=np.int32)
    ties = children(keys, Stream.GUESS)
    prior = adversary.belief.pool_prior(adversary.k)
    size = MEMORY_CHUNK if game.memory else CHUNK

    def chunk(start: int) -> None:
        rows = slice(start, min(start + size, count))
        posterior = posteriors(rows)
        # reports that the adversary's model excludes leave it with its prior
        posterior = np.where(np.isnan(posterior), prior, posterior)
        kernels.decide(
            posterior,
            lengths[rows],
            observations,
            truth[rows],
            thresholds,
            ties[rows],
            guess[rows],
            confidence[rows],
            of_truth[rows],
            reached[rows],
        )
        tick(share * (rows.stop - rows.start))

    for _ in run(chunk, range(0, count, size)):
        pass
    return Attacked(
        adversary=name,
        pool_names=adversary.universe.pool_names,
        gamma=gamma,
        delta=delta,
        truth=truth,
        guess=guess,
        confidence=confidence,
        posterior_true=of_truth,
        reached=reached,
    )


def preferences(game: Game, universe: Universe, users: Users) -> Preferences:
    """Preferred pool, relevant interest and polarization of each user with respect to an adversary's pools.

    For the pools that the users were drawn with, these are the draws; for others they follow from Phi_U
    (definition of P_U, gamma_U and delta_U).
    """
    if universe is game.universe:
        return users.iota, users.gamma, users.delta
    k = game.universe.k
    parts = np.empty((len(users.iota), k + 1))
    parts[:, 0] = 1.0 - users.gamma
    parts[:, 1:] = (users.gamma * (1.0 - users.delta) / (k - 1))[:, None]
    parts[np.arange(len(parts)), users.iota + 1] = users.gamma * users.delta
    within = within_pools(game.universe, game.popularity)
    overlap = np.zeros((k + 1, universe.k + 1))
    np.add.at(overlap, (game.universe.pool_of + 1, universe.pool_of + 1), within)
    pools = (parts @ overlap)[:, 1:]
    gamma = pools.sum(axis=1)
    return pools.argmax(axis=1).astype(np.int64), gamma, pools.max(axis=1) / gamma
