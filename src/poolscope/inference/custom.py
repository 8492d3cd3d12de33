"""Attacks as a role: what a custom attack receives and returns, and how its posteriors are checked and calibrated.

A custom attack maps the reports of some users to posteriors, or to scores. Scores are turned into posteriors by a
calibration on held-out users (`Calibration`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Protocol, TypeGuard, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike
from scipy import special

from poolscope.core.arrays import Floats, Integers, Keys
from poolscope.core.errors import InputError, PoolscopeError
from poolscope.core.randomness import KeyStream, children
from poolscope.devices.policy import ReportedEvents
from poolscope.devices.protocols import Device
from poolscope.inference.adversary import Adversary, stacked_pool_weights
from poolscope.inference.independent import BlockPosteriors, repeat_last, reports_at_longest_pseudonym
from poolscope.mechanisms.protocols import Mechanism, Reports
from poolscope.population.behavior import Behavior
from poolscope.population.universe import Universe

#: Largest deviation of the sum of a posterior from one; within it, posteriors are normalized.
SUM_TOLERANCE = 1e-6


@dataclass(frozen=True, kw_only=True, eq=False)
class AttackContext:
    """What a custom attack knows beside the reports; never the true preferences.

    Parameters
    ----------
    adversary : the assumptions: pools, popularity and priors.
    device : what sent the reports.
    keys : (users,) a key for each user, for random numbers of the attack itself. Reports do not depend on these keys.

    Examples
    --------
    >>> context = ps.attacks.AttackContext(
    ...     adversary=strong, device=ps.mechanisms.Fresh(mechanism), keys=np.zeros(1, dtype=np.uint64)
    ... )
    >>> context.likelihoods({"value": np.array([0, 25])}).shape, context.hypotheses
    ((2, 4), ('a', 'b', 'c'))
    """

    adversary: Adversary
    device: Device
    keys: Keys

    @property
    def universe(self) -> Universe:
        """The objects, and the pools that the adversary distinguishes."""
        return self.adversary.universe

    @property
    def popularity(self) -> Floats:
        """(universe,) the popularity that the adversary assumes."""
        return self.adversary.popularity

    @property
    def belief(self) -> Behavior:
        """The priors of relevant interest, polarization and preferred pool."""
        return self.adversary.belief

    @property
    def hypotheses(self) -> tuple[str, ...]:
        """The columns of a posterior: the pools, and "none" where the priors allow it."""
        return self.adversary.hypotheses

    @property
    def mechanism(self) -> Mechanism:
        """The mechanism of a single report."""
        return self.device.mechanism

    def likelihoods(self, reports: Reports) -> Floats:
        """Return (reports, 1 + k) Pr[report | object of the neutral pool], then of each pool, up to a factor."""
        mechanism, (view, _) = self.mechanism, stacked_pool_weights([self.adversary])
        return mechanism.likelihood_offset + mechanism.likelihood_scale * mechanism.mass(reports, view)

    def by_user(self, values: ArrayLike, lengths: Integers) -> Floats:
        """Return (users, longest, ...) values of reports (reports, ...), padded with zeros beyond a user's last."""
        flat, longest = np.asarray(values), int(np.max(lengths, initial=0))
        out = np.zeros((len(lengths), longest, *flat.shape[1:]))
        out[np.arange(longest) < np.asarray(lengths)[:, None]] = flat
        return out


@runtime_checkable
class Attack(Protocol):
    """An attack of one's own, beside the adversaries of a game: `Game(adversaries=[Adversary.weak(universe), Mine()])`.

    A user's posterior may depend on the reports of that user alone. Attacks run in several threads and processes, so
    that they keep no state. An attack with a method `scores` of the same parameters, and without `posteriors`, returns
    any finite numbers, which are calibrated on held-out users (`ps.attacks.ScoringAttack`).

    Examples
    --------
    >>> isinstance(ps.attacks.Bayesian(), ps.Attack)
    True
    """

    @property
    def name(self) -> str:
        """The name in outcomes."""
        ...

    def posteriors(
        self, reports: Reports, lengths: Integers, observations: Sequence[int], context: AttackContext
    ) -> ArrayLike:
        """Return (users, observations, hypotheses) posteriors, each row a probability distribution.

        Parameters
        ----------
        reports : columns of the reports, user after user, each user's in order of time.
        lengths : (users,) reports of each user, which may be 0.
        observations : increasing numbers of reports. Row o uses a user's first `observations[o]` reports alone, or all
            of them where there are fewer.
        context : what else is known.
        """
        ...


@runtime_checkable
class ScoringAttack(Protocol):
    """An attack that returns scores, which are calibrated on held-out users; see `Attack`.

    Examples
    --------
    >>> isinstance(ps.attacks.Averaging(), ps.attacks.ScoringAttack)
    True
    """

    @property
    def name(self) -> str:
        """The name in outcomes."""
        ...

    def scores(
        self, reports: Reports, lengths: Integers, observations: Sequence[int], context: AttackContext
    ) -> ArrayLike:
        """Return (users, observations, hypotheses) scores: larger for more likely hypotheses."""
        ...


AnyAttack = Attack | ScoringAttack


def is_attack(value: object) -> TypeGuard[AnyAttack]:
    """Return whether a value is an instance of an attack, not a class."""
    methods = (getattr(value, name, None) for name in ("posteriors", "scores"))
    return not isinstance(value, type) and hasattr(value, "name") and any(map(callable, methods))


def needs_calibration(attack: AnyAttack | None) -> TypeGuard[ScoringAttack]:
    """Return whether an attack returns scores alone."""
    return attack is not None and not callable(getattr(attack, "posteriors", None))


def as_adversary(
    given: Adversary | AnyAttack, universe: Universe, popularity: Floats, belief: Behavior, *, known: str
) -> Adversary:
    """Return an adversary; an attack of one's own becomes one with these assumptions."""
    if isinstance(given, Adversary):
        return given
    if not is_attack(given):
        remedy = "or an attack with a name and a method posteriors or scores; an instance, not its class"
        raise InputError("must be an Adversary", value=given, remedy=remedy)
    return with_attack(
        Adversary(name="attack", universe=universe, popularity=popularity, belief=belief, phrase=known), given
    )


def with_attack(assumed: Adversary, attack: AnyAttack) -> Adversary:
    """Return an adversary that has the assumptions of another, with their redraws, and an attack of its own."""
    if not isinstance(attack.name, str) or not attack.name:
        raise InputError("an attack's name must be a text", value=attack.name)
    own = f"custom attack {type(attack).__name__}, {assumed.phrase}" if assumed.phrase else type(attack).__name__
    if needs_calibration(attack):
        own += ", scores calibrated on held-out users"
    first, *redraws = (
        replace(one, name=attack.name, attack=attack, phrase=own, redraws=()) for one in (assumed, *assumed.redraws)
    )
    return replace(first, redraws=tuple(redraws))


def custom_posteriors(
    adversary: Adversary,
    device: Device,
    reports: Reports,
    lengths: Integers,
    observations: Sequence[int],
    keys: Keys,
) -> Floats:
    """Return the checked posteriors (users, observations, hypotheses) of an adversary with an attack of its own.

    Users without reports have the prior. `keys` are those of the users; the attack receives keys below them, by which
    no report is drawn.
    """
    attack = adversary.attack
    assert attack is not None
    context = AttackContext(adversary=adversary, device=device, keys=children(keys, KeyStream.ATTACK))
    shape = len(lengths), len(observations), len(adversary.hypotheses)
    out = np.array(_called(attack, "posteriors", reports, lengths, observations, context, shape))
    sums = out.sum(axis=2)
    if np.any(out < 0) or np.any(np.abs(sums - 1) > SUM_TOLERANCE):
        bad = np.argwhere((out < 0).any(axis=2) | (np.abs(sums - 1) > SUM_TOLERANCE))[0]
        rule = f"posteriors of attack {attack.name!r} must be at least 0 and sum to 1"
        row = np.array2string(out[tuple(bad)], max_line_width=1000, threshold=6, precision=6)
        raise InputError(rule, value=row, remedy="divide each row by its sum, or rename the method to scores")
    out /= sums[:, :, None]
    out[np.asarray(lengths) == 0] = adversary.prior
    return out


def _called(
    attack: AnyAttack,
    method: str,
    reports: Reports,
    lengths: Integers,
    observations: Sequence[int],
    context: AttackContext,
    shape: tuple[int, int, int],
) -> Floats:
    """Call an attack's method and check shape and finiteness of what it returns."""
    try:
        found = np.asarray(getattr(attack, method)(reports, lengths, observations, context), dtype=np.float64)
    except PoolscopeError:
        raise
    except Exception as error:
        text = " ".join(str(error).split())
        raise PoolscopeError(f"attack {attack.name!r} failed: {type(error).__name__}: {text}") from error
    if found.shape != shape:
        rule = f"{method} of attack {attack.name!r} must be (users, observations, hypotheses) = {shape}"
        raise InputError(rule, value=found.shape)
    if not np.isfinite(found).all():
        user, row, _ = np.argwhere(~np.isfinite(found))[0]
        rule = f"{method} of attack {attack.name!r} must be finite"
        raise InputError(rule, value=f"{found[user, row]} after {observations[row]} reports")
    return found


#: Powers of the spread of a user's scores in the calibration.
POWERS = 3


@dataclass(frozen=True, kw_only=True, eq=False)
class Calibrated:
    """An attack whose scores are turned into posteriors by a multinomial logistic regression.

    The logit of a hypothesis is its centered score times a quadratic function of the spread of the user's scores, plus
    an offset. A user with more relevant interest has a larger spread, and each difference then means more.

    Parameters
    ----------
    attack : returns scores.
    counts : (fits,) increasing numbers of reports of the fits; between them, parameters are interpolated in the
        logarithm.
    parameters : (fits, POWERS + 1 + hypotheses) coefficients of the powers, largest spread of the fit, offsets.
    """

    attack: ScoringAttack
    counts: Integers
    parameters: Floats

    @property
    def name(self) -> str:
        return self.attack.name

    def posteriors(
        self, reports: Reports, lengths: Integers, observations: Sequence[int], context: AttackContext
    ) -> Floats:
        shape = len(lengths), len(observations), len(context.hypotheses)
        scores = _called(self.attack, "scores", reports, lengths, observations, context, shape)
        used = np.log(np.maximum(np.minimum(np.asarray(lengths)[:, None], observations), 1))
        known = np.log(self.counts)
        found = np.stack([np.interp(used, known, column) for column in self.parameters.T], axis=2)
        logits = (_features(scores, found[:, :, POWERS]) * found[:, :, None, :POWERS]).sum(axis=3)
        out: Floats = special.softmax(logits + found[:, :, POWERS + 1 :], axis=2)
        return out


def _features(scores: Floats, largest: Floats | float) -> Floats:
    """Return (..., hypotheses, POWERS) centered scores times powers of their spread, which is limited."""
    centered = scores - scores.mean(axis=-1, keepdims=True)
    spread = np.minimum(centered.std(axis=-1), largest)
    out: Floats = centered[..., None] * spread[..., None, None] ** np.arange(POWERS)
    return out


def calibrate(
    adversary: Adversary,
    device: Device,
    reports: Reports,
    lengths: Integers,
    counts: Sequence[int],
    truth: Integers,
    keys: Keys,
) -> Adversary:
    """Return the adversary with its scores calibrated on held-out users of known preferences.

    The regression is fitted at each number of reports. Redraws share it. `truth` is (users, counts), the preferred pool
    when that many reports have been sent.
    """
    attack = adversary.attack
    assert needs_calibration(attack)
    context = AttackContext(adversary=adversary, device=device, keys=children(keys, KeyStream.ATTACK))
    h = len(adversary.hypotheses)
    scores = _called(attack, "scores", reports, lengths, counts, context, (len(lengths), len(counts), h))
    fits = []
    for place, preferred in enumerate(truth.T):
        held = preferred < h
        fits.append(_fitted(scores[held, place], preferred[held], adversary.prior))
    made = Calibrated(attack=attack, counts=np.asarray(counts, dtype=np.int64), parameters=np.stack(fits))
    redraws = tuple(replace(one, attack=made) for one in adversary.redraws)
    return replace(adversary, attack=made, redraws=redraws)


def _fitted(scores: Floats, truth: Integers, prior: Floats) -> Floats:
    """Return the parameters of the largest likelihood, with a weak penalty that keeps them finite."""
    from scipy.optimize import minimize  # a slow import that most games do not need

    h, largest = scores.shape[1], float((scores - scores.mean(axis=1, keepdims=True)).std(axis=1).max())
    features = _features(scores, largest)
    sizes = features.std(axis=(0, 1))
    sizes[sizes == 0] = 1.0
    features, one_hot = features / sizes, np.eye(h)[truth]
    start = np.append(np.zeros(POWERS), np.log(np.maximum(prior, 1e-6)))

    def loss(parameters: Floats) -> tuple[float, Floats]:
        logs = special.log_softmax(features @ parameters[:POWERS] + parameters[POWERS:], axis=1)
        error = np.exp(logs) - one_hot
        slopes = np.append(np.einsum("uh,uhp->p", error, features), error.sum(axis=0))
        return float(-(logs * one_hot).sum() + 0.05 * parameters @ parameters), slopes + 0.1 * parameters

    found = minimize(loss, start, jac=True, method="BFGS", options={"gtol": 1e-6 * len(scores)}).x
    return np.concatenate([found[:POWERS] / sizes, [largest], found[POWERS:]])


#: Users whose reports an attack of one's own receives at a time: those whose numbers have the same multiple of this.
USERS_PER_CALL = 64


def custom_block(
    adversary: Adversary,
    device: Device,
    sent: ReportedEvents,
    keys: Keys,
    numbers: Integers,
    observations: Sequence[int],
) -> BlockPosteriors:
    """Return the posteriors of a block of users, each after the counts that are evaluated; rows between repeat them.

    `numbers` (users,) increasing determine which users are attacked together, so that no bit depends on blocks.
    """

    def compute(rows: slice) -> tuple[Floats, None]:
        mine, window = sent[rows], sent.rotate_after
        (users, n), reports = mine.objects.shape, mine.reports(device, keys[rows])
        counts = reports_at_longest_pseudonym(mine.counts(observations), window)
        size = n if window is None else min(window, n)
        names = -(-n // size)
        # a pseudonym is a user of its own to the attack
        lengths = np.clip(mine.lengths[:, None] - size * np.arange(names), 0, size)
        asked = np.unique(np.append((counts[counts > 0] - 1) % size + 1, [size] if names > 1 else []).astype(np.int64))
        out = np.empty((users, n + 1, len(adversary.hypotheses)))
        out[:] = adversary.prior
        if len(asked):
            own_keys = np.repeat(keys[rows], names)
            found = custom_posteriors(adversary, device, reports, lengths.ravel(), asked.tolist(), own_keys)
            found = found.reshape(users, names, len(asked), -1)
            for name in range(names):
                for place, count in enumerate(asked):
                    out[:, name * size + count :] = found[:, name, place, None]
        return repeat_last(out, mine.lengths), None

    cuts = np.flatnonzero(np.diff(numbers // USERS_PER_CALL)) + 1
    edges = [0, *cuts.tolist(), len(numbers)]
    return BlockPosteriors(
        compute, USERS_PER_CALL, sent.rotate_after, slices=tuple(slice(a, b) for a, b in pairwise(edges) if a < b)
    )
