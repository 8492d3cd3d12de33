"""Simulate one user: the objects, the reports, and the posterior after every report."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from poolscope.core.arrays import Floats
from poolscope.core.errors import InputError, did_you_mean
from poolscope.core.executors import Local
from poolscope.game.game import Game, popularity_draw_of
from poolscope.game.users import user_traces
from poolscope.inference.adversary import Adversary, report_likelihoods, stacked_pool_weights
from poolscope.inference.attack import attack_for
from poolscope.inference.independent import posterior_or_prior
from poolscope.inference.thresholds import DEFAULT_THRESHOLD
from poolscope.mechanisms.protocols import ReportColumn, Reports
from poolscope.population.behavior import NONE, Preferences
from poolscope.population.universe import Universe

MAX_MEMOIZED_COUNTS = 24
"""Number of posteriors with memoization, each of which is a separate attack."""

MAX_USERS = 10_000_000

NEUTRAL = "neutral"


@dataclass(frozen=True, kw_only=True)
class Step:
    """An event of a user.

    Parameters
    ----------
    event : its number, from 1; object, pool : what was picked, of which pool.
    report : what was sent, in words; None: nothing was.
    pseudonym : under which of the user's names, from 1.
    support : how much each pool is supported by this report alone, shares that add up to 1; None without a report.
    posterior : what the adversary believes afterwards, of the pseudonym that has sent last.
    evidence : what the report added to the log odds of the preferred pool.
    """

    event: int
    object: str
    pool: str
    report: str | None
    pseudonym: int
    support: tuple[float, ...] | None
    posterior: tuple[float, ...]
    evidence: float | None


@dataclass(frozen=True, kw_only=True)
class UserHistory:
    """A user and the posterior after each event.

    Parameters
    ----------
    facts : the events with the largest Bayes factors, by rank.
    threshold : the confidence from which on a user is exposed; exposed_after : the first event with it; None: none.
    """

    user: int | str
    adversary: str
    pools: tuple[str, ...]
    preferred: str
    gamma: float
    delta: float
    prior: tuple[float, ...]
    steps: tuple[Step, ...]
    facts: tuple[int, ...]
    threshold: float
    exposed_after: int | None


def user_history(
    game: Game, user: int, seed: int, adversary: str | None = None, most: int | None = None
) -> UserHistory:
    """Return the history of a user of a game, up to `most` events; the last adversary attacks by default."""
    if not 0 <= user < (game.available_users or MAX_USERS):
        raise InputError("there is no such user", value=user, place="user")
    (estimate,) = popularity_draw_of(np.array([user]), game.estimates)
    looking = _adversary(game, adversary).with_estimate(int(estimate))
    horizon = min(game.horizon, most or game.horizon)
    drawn = user_traces(game, range(user, user + 1), seed, horizon)
    keys, name, traces = drawn.keys, drawn.names[0], drawn.traces
    # the preferences at the last observation count, where they change
    all_n = drawn.truth(looking.universe)
    last = [values.reshape(1, -1)[:, -1] for values in (all_n.gamma, all_n.delta)]
    found = Preferences(all_n.iota.reshape(1, -1)[:, -1], *last)
    sent = game.policy.select_events(np.ascontiguousarray(traces), keys)
    count, universe = int(sent.lengths[0]), looking.universe
    asked = counts_of(horizon, not game.device.memoizes)
    attack = attack_for(game.device).posteriors(sent, keys, [looking], asked, Local(threads=1), lambda _: None)
    posterior = posterior_or_prior(attack[0].compute(slice(0, 1))[0][0], looking)
    reports = sent.reports(game.device, keys)
    words = in_words(reports, game.mechanism.report_columns, game.universe)
    support = supports_of(game, reports, looking)
    iota = int(found.iota[0])
    known = posterior[: count + 1, iota] if iota < posterior.shape[1] else np.zeros(count + 1)
    gains = _gains(known, looking, iota, sent.rotate_after)
    number = {int(place): i for i, place in enumerate(sent.event_index[0, :count])}
    steps, done = [], 0
    for event, picked in enumerate(traces[0].tolist()):
        row = number.get(event)
        done += row is not None
        pool = int(universe.pool_of[picked])
        steps.append(
            Step(
                event=event + 1,
                object=game.universe.objects[picked] if game.universe.objects else str(picked),
                pool=NEUTRAL if pool < 0 else universe.pool_names[pool],
                report=None if row is None else words[row],
                pseudonym=1 if sent.rotate_after is None else max(0, done - 1) // sent.rotate_after + 1,
                support=None if row is None else tuple(support[row].tolist()),
                posterior=tuple(posterior[done].tolist()),
                evidence=None if row is None else float(gains[row]),
            )
        )
    threshold = DEFAULT_THRESHOLD if game.threshold is None else game.threshold
    return UserHistory(
        user=name,
        adversary=looking.name,
        pools=looking.hypotheses,
        preferred=(*universe.pool_names, NONE)[iota],
        gamma=float(found.gamma[0]),
        delta=float(found.delta[0]),
        prior=tuple(posterior[0].tolist()),
        steps=tuple(steps),
        facts=strongest_events(steps),
        threshold=threshold,
        exposed_after=next((one.event for one in steps if one.report and max(one.posterior) >= threshold), None),
    )


class _Informative(Protocol):
    """An event with what it added to the log odds; None without a report."""

    @property
    def event(self) -> int: ...

    @property
    def evidence(self) -> float | None: ...


def strongest_events(steps: Sequence[_Informative]) -> tuple[int, ...]:
    """Return the five events that added most to the log odds of the truth, by rank."""
    order = [step for step in steps if step.evidence is not None and step.evidence > 0]
    order.sort(key=lambda step: -(step.evidence or 0.0))
    return tuple(step.event for step in order[:5])


def _adversary(game: Game, name: str | None) -> Adversary:
    known = [a.name for a in game.adversaries]
    if not known:
        raise InputError("there is no adversary who sees reports", place="adversary")
    if name is not None and name not in known:
        raise InputError("unknown adversary", value=name, place="adversary", remedy=did_you_mean(name, known))
    found: Adversary = game.adversaries[-1] if name is None else game.adversaries[known.index(name)]
    return found


def counts_of(horizon: int, fresh: bool) -> list[int]:
    """Return the numbers of reports at which the posterior is computed."""
    count = horizon if fresh else min(horizon, MAX_MEMOIZED_COUNTS)
    return sorted(set(np.linspace(1, horizon, count).round().astype(int).tolist()))


def supports_of(game: Game, reports: Reports, adversary: Adversary) -> Floats:
    """Return the likelihood of each single report, normalized over pools: (reports, k)."""
    if not len(next(iter(reports.values()))):
        return np.zeros((0, len(adversary.hypotheses)))
    view, columns = stacked_pool_weights([adversary])
    _, likelihood = report_likelihoods(game.mechanism, adversary, game.mechanism.mass(reports, view)[:, columns[0]])
    total = likelihood.sum(axis=1, keepdims=True)
    shares: Floats = np.divide(
        likelihood, total, out=np.full_like(likelihood, 1 / likelihood.shape[1]), where=total > 0
    )
    return shares


def _gains(of_truth: Floats, adversary: Adversary, iota: int, window: int | None) -> Floats:
    """Return what each report added to the log odds of the preferred pool; a new pseudonym starts from the prior."""
    sure = np.clip(of_truth, 1e-300, 1 - 1e-16)
    odds = np.log(sure) - np.log1p(-sure)
    before = odds[:-1].copy()
    if window is not None:
        prior = float(adversary.prior[iota]) if iota < len(adversary.prior) else 0.0
        before[::window] = np.log(prior) - np.log1p(-prior) if 0 < prior < 1 else odds[0]
    gains: Floats = odds[1:] - before
    return gains


def in_words(reports: Reports, columns: Mapping[str, ReportColumn], universe: Universe) -> list[str]:
    """Return each report as text: its columns, and for bits the number set."""
    facts: list[list[str]] = []
    for name, column in columns.items():
        facts.append(_column_in_words(name, column, np.asarray(reports[name]), universe))
    return [", ".join(parts) for parts in zip(*facts, strict=True)]


def _column_in_words(name: str, column: ReportColumn, values: NDArray[np.generic], universe: Universe) -> list[str]:
    if column.kind == "bits":
        ones = np.unpackbits(values.astype(np.uint8), axis=1, bitorder="little", count=column.size).sum(axis=1)
        return [f"{int(count):,} of {column.size:,} bits set" for count in ones]
    if column.kind == "reals":
        return [f"{column.size:,} noisy numbers, the largest {row.max():.2f}" for row in values.astype(np.float64)]
    if column.kind == "object":
        names: Sequence[str] | None = universe.objects
        return [names[int(value)] if names else f"object {int(value)}" for value in values.astype(np.int64)]
    if column.kind == "sign":
        return [f"{name} {'+1' if value > 0 else '−1'}" for value in values.astype(np.int64)]
    return [f"{name} {int(value):,}" for value in values.astype(np.int64)]
