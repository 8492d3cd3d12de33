"""Worked examples of attacks of one's own, and the built-in attack as one: the namespace `poolscope.attacks`.

Each takes reports and returns posteriors or scores, through the public protocol alone (`custom.Attack`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from weakref import WeakKeyDictionary

import numpy as np

from poolscope.core.arguments import check_integer
from poolscope.core.arrays import Floats, Integers
from poolscope.core.randomness import children
from poolscope.devices.protocols import Device
from poolscope.inference.adversary import Adversary, posterior_block, stacked_pool_weights
from poolscope.inference.attack import attack_for
from poolscope.inference.changing import ChangingPreference, PreferenceHistory, preference_history
from poolscope.inference.custom import Attack, AttackContext, ScoringAttack
from poolscope.mechanisms.protocols import Reports
from poolscope.population.behavior import draw_objects
from poolscope.population.popularity import within_pools

__all__ = [
    "AttackContext",
    "Averaging",
    "Bayesian",
    "ChangingPreference",
    "Forgetting",
    "NearestProfile",
    "PreferenceHistory",
    "ScoringAttack",
    "preference_history",
]


def __dir__() -> list[str]:
    return __all__


@dataclass(frozen=True, kw_only=True)
class Bayesian:
    """The built-in attack as an attack of one's own: the paper's, or on memoized responses where devices memoize.

    Examples
    --------
    >>> ps.attacks.Bayesian().name
    'bayesian'
    """

    name: str = "bayesian"

    def posteriors(
        self, reports: Reports, lengths: Integers, observations: Sequence[int], context: AttackContext
    ) -> Floats:
        """Return the posteriors of `ps.posterior`."""
        found = attack_for(context.device).posterior(reports, context.adversary, lengths, observations)
        return np.where(np.isnan(found), context.adversary.prior, found)


@dataclass(frozen=True, kw_only=True)
class Forgetting:
    """The paper's attack on a user's last `window` reports: an adversary who forgets.

    Examples
    --------
    >>> ps.attacks.Forgetting(window=60).window
    60
    """

    window: int = 60
    name: str = "forgetting"

    def __post_init__(self) -> None:
        check_integer("window", self.window, 1)

    def posteriors(
        self, reports: Reports, lengths: Integers, observations: Sequence[int], context: AttackContext
    ) -> Floats:
        """Return the posteriors of the reports in the window before each count."""
        view, _ = stacked_pool_weights([context.adversary])
        mass = context.by_user(context.mechanism.mass(reports, view), lengths)
        out = np.empty((len(lengths), len(observations), len(context.hypotheses)))
        for place, n in enumerate(observations):
            stop = np.minimum(lengths, n)
            used = np.minimum(stop, self.window)
            rows = (stop - used)[:, None] + np.arange(int(used.max(initial=0)))
            recent = np.take_along_axis(mass, np.minimum(rows, mass.shape[1] - 1)[:, :, None], axis=1)
            out[:, place] = posterior_block(context.mechanism, context.adversary, recent, used)[:, -1]
        return np.where(np.isnan(out), context.adversary.prior, out)


@dataclass(frozen=True, kw_only=True)
class Averaging:
    """Average what single reports say: the mean of Pr[pool | report] under equally likely pools.

    It returns scores, which are calibrated on held-out users.

    Examples
    --------
    >>> ps.attacks.Averaging().name
    'averaging'
    """

    name: str = "averaging"

    def scores(
        self, reports: Reports, lengths: Integers, observations: Sequence[int], context: AttackContext
    ) -> Floats:
        """Return the mean share of each pool in the likelihoods of a user's reports."""
        return _running_means(_shares(reports, context), lengths, observations, context)


@dataclass(frozen=True, kw_only=True)
class NearestProfile:
    """Compare a user's mean report with the profile of each pool: the mean report of a user who prefers it.

    The mean report is that of `Averaging`, with the neutral pool as a further column. Profiles come from
    `profile_reports` simulated reports of each pool's objects, at relevant interest and polarization `interest` and
    `polarization`. The score is minus the squared distance.

    Examples
    --------
    >>> ps.attacks.NearestProfile().name
    'nearest-profile'
    """

    interest: float = 0.5
    polarization: float = 0.75
    profile_reports: int = 2000
    name: str = "nearest-profile"

    def scores(
        self, reports: Reports, lengths: Integers, observations: Sequence[int], context: AttackContext
    ) -> Floats:
        """Return minus the squared distance of a user's mean report from each profile."""
        means = section_means(context.adversary, context.device, self.profile_reports)
        k, gamma, delta = context.universe.k, self.interest, self.polarization
        other = gamma * (1 - delta) / (k - 1)
        mix = np.full((k, k + 1), other) + (gamma * delta - other) * np.eye(k, k + 1, 1)
        mix[:, 0] = 1 - gamma if context.universe.neutral_size else 0.0
        profiles = mix / mix.sum(axis=1, keepdims=True) @ means
        mean = _running_means(_all_shares(reports, context), lengths, observations, context)
        distance = ((mean[:, :, None] - profiles) ** 2).sum(axis=3)
        # the hypothesis of no preferred pool has a profile of neutral objects alone
        none = ((mean - means[0]) ** 2).sum(axis=2, keepdims=True)
        return -distance if len(context.hypotheses) == k else -np.concatenate([distance, none], axis=2)


def _all_shares(reports: Reports, context: AttackContext) -> Floats:
    """Return (reports, 1 + k) likelihoods divided by their sum."""
    return _normalized(context.likelihoods(reports))


def _shares(reports: Reports, context: AttackContext) -> Floats:
    """Return (reports, hypotheses) likelihoods divided by their sum."""
    k = context.universe.k
    columns = [*range(1, k + 1), *([0] if len(context.hypotheses) > k else [])]
    return _normalized(context.likelihoods(reports)[:, columns])


def _normalized(likelihood: Floats) -> Floats:
    """Divide rows by their sums; equal shares where a sum is 0."""
    total, out = likelihood.sum(axis=1, keepdims=True), np.full_like(likelihood, 1.0 / likelihood.shape[1])
    np.divide(likelihood, total, out=out, where=total > 0)
    return out


def _running_means(values: Floats, lengths: Integers, observations: Sequence[int], context: AttackContext) -> Floats:
    """Return (users, observations, columns) the means over the first reports of each user."""
    sums = np.cumsum(context.by_user(values, lengths), axis=1)
    sums = np.concatenate([np.zeros((len(sums), 1, values.shape[1])), sums], axis=1)
    used = np.minimum(np.asarray(lengths)[:, None], observations)
    out: Floats = np.take_along_axis(sums, used[:, :, None], axis=1) / np.maximum(used, 1)[:, :, None]
    return out


#: The last profiles of each adversary, with the device and the attack that they are for.
_PROFILES: WeakKeyDictionary[Adversary, tuple[Device, int, Floats]] = WeakKeyDictionary()


def section_means(adversary: Adversary, device: Device, count: int) -> Floats:
    """Return (1 + k, 1 + k) the mean `_all_shares` of `count` simulated reports of each section's objects, cached."""
    held = _PROFILES.get(adversary)
    if held is not None and held[0] is device and held[1] == count:
        return held[2]
    universe, root = adversary.universe, np.uint64(count)
    within = within_pools(universe, adversary.popularity, empty="uniform")
    context = AttackContext(adversary=adversary, device=device, keys=np.zeros(0, dtype=np.uint64))
    means = np.empty((universe.k + 1, universe.k + 1))
    for section in range(universe.k + 1):
        inside = np.where(universe.pool_of + 1 == section, within, 0.0)
        keys = children(children(root, section), np.arange(count))
        # without neutral objects, the neutral pool has no reports; its row is never used
        objects = draw_objects(inside if inside.any() else within, keys)
        means[section] = _all_shares(device.mechanism.report(objects, children(keys, 1)), context).mean(axis=0)
    _PROFILES[adversary] = device, count, means
    return means


#: Attacks that the command line knows by name.
ATTACKS: dict[str, Callable[[], Attack | ScoringAttack]] = {
    "bayesian": Bayesian,
    "averaging": Averaging,
    "nearest-profile": NearestProfile,
    "forgetting": Forgetting,
    "changing": ChangingPreference,
}
