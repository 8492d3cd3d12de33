"""Explain guesses: when the top users were exposed, by which reports, and which reports of all users revealed most.

The strength of a report is its log Bayes factor for a pool: the natural logarithm of its likelihood from this pool over
the mean over all pools. The likeliest objects of a report weigh each object by how often the user is thought to pick
it: with the posterior means of gamma and delta, and the guess as the preferred pool.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import polars as pl

from poolscope.core.arrays import Floats, Integers
from poolscope.core.errors import InputError
from poolscope.core.executors import Engine, Local
from poolscope.game.columns import exposed_columns
from poolscope.inference.adversary import Adversary, report_likelihoods, stacked_pool_weights
from poolscope.inference.posterior import behavior_posterior
from poolscope.inference.thresholds import DEFAULT_THRESHOLD
from poolscope.mechanisms.protocols import Mechanism, PoolWeights, Reports, report_count
from poolscope.metrics.intervals import Estimate
from poolscope.metrics.models import Count, Real, Result, result
from poolscope.population.behavior import NONE
from poolscope.population.popularity import within_pools
from poolscope.population.universe import Universe
from poolscope.reports.files import masses
from poolscope.workflows.attack.partitioning import Gathered
from poolscope.workflows.attack.preparation import OpenReports
from poolscope.workflows.attack.scoring import MASS, Scorer
from poolscope.workflows.attack.summary import BAYES_FACTOR, LOG_ODDS, STRONGEST, first_strongest

#: Strongest reports of a user, objects of a report, and users that are explained.
REPORTS, OBJECTS, MAX_EXPLAINED = 3, 3, 1000


@result
class LikelyObject(Result):
    """An object that a report may have been made from, and its probability."""

    object: str
    probability: Real


@result
class StrongReport(Result):
    """A report with a large Bayes factor.

    Parameters
    ----------
    user : who sent it; n : which of the user's reports, from 1.
    pool : what it speaks for, with its log Bayes factor; objects : the likeliest ones, in that order.
    """

    user: str
    n: Count
    pool: str
    log_bayes_factor: Real
    objects: tuple[LikelyObject, ...] = ()

    @property
    def likeliest(self) -> str:
        """The likeliest objects with their probabilities."""
        return ", ".join(f"{one.object} ({100 * one.probability:.0f}%)" for one in self.objects)


@result
class Explanation(Result):
    """Why an adversary is confident about a user.

    Parameters
    ----------
    confidence, log_odds : of the guess, after n reports.
    threshold, exposed_at : the report at which the confidence first reached the threshold; None for never.
    reports : those with the largest Bayes factors for the guess.
    gamma, delta : posterior means with 95% intervals; None for an adversary who groups memoized reports.
    """

    user: str
    adversary: str
    guess: str
    n: Count
    confidence: Real
    log_odds: Real
    threshold: Real
    exposed_at: Count | None
    reports: tuple[StrongReport, ...]
    gamma: Estimate | None = None
    delta: Estimate | None = None

    @property
    def exposure_text(self) -> str:
        """When the user was first exposed, in words."""
        return "never" if self.exposed_at is None else f"report {self.exposed_at:,}"

    @property
    def reports_text(self) -> str:
        """The strongest reports with their log Bayes factors and likeliest objects."""
        return "; ".join(f"{one.n:,} ({one.log_bayes_factor:+.2f}): {one.likeliest}" for one in self.reports)

    @property
    def gamma_text(self) -> str:
        """The relevant interest with its 95% interval; a dash where it is not known."""
        return _interval_text(self.gamma)

    @property
    def delta_text(self) -> str:
        """The polarization with its 95% interval; a dash where it is not known."""
        return _interval_text(self.delta)


def _interval_text(found: Estimate | None) -> str:
    return "–" if found is None else f"{found.value:.2f} ({found.low:.2f}–{found.high:.2f})"


@dataclass(frozen=True, kw_only=True)
class Explanations:
    """Explanations of the top users, and the strongest reports of all users, by adversary."""

    users: Sequence[Explanation] = ()
    strongest: Mapping[str, Sequence[StrongReport]] = field(default_factory=dict)


def strongest_reports(scorer: Scorer, gathered: Gathered, engine: Engine) -> pl.DataFrame:
    """Return the strongest reports of some users for each adversary: ``adversary, user, n, pool, log_bayes_factor``."""
    starts = np.cumsum(gathered.lengths) - gathered.lengths
    number = np.arange(int(gathered.lengths.sum())) - np.repeat(starts, gathered.lengths) + 1
    found = []
    for index, adversary in enumerate(scorer.adversaries):
        factors = _log_bayes_factors(scorer.mechanism, adversary, _masses(scorer, index, gathered.features, engine))
        best, pool = factors.max(axis=1), factors.argmax(axis=1)
        # every candidate that may be among the strongest; ties are broken below
        cut = np.partition(best, -STRONGEST)[-STRONGEST] if len(best) > STRONGEST else -np.inf
        rows = np.flatnonzero(best >= cut)[: 100 * STRONGEST]
        owners = np.searchsorted(np.cumsum(gathered.lengths), rows, side="right")
        names = pl.Series(adversary.hypotheses)
        found.append(
            pl.DataFrame(
                {
                    "adversary": pl.repeat(adversary.name, len(rows), eager=True),
                    "user": gathered.names.cast(pl.String).gather(owners),
                    "n": number[rows],
                    "pool": names.gather(pool[rows]),
                    BAYES_FACTOR: best[rows],
                }
            )
        )
    return first_strongest(pl.concat(found))


def _masses(scorer: Scorer, index: int, features: Reports, engine: Engine) -> Floats:
    """Return (reports, k + 1) the masses of one adversary."""
    if index in scorer.memoization_unaware:
        return features[MASS][:, scorer.view[1][scorer.memoization_unaware.index(index)]]
    weights, columns = stacked_pool_weights([scorer.adversaries[index]])
    reports = {name: features[name] for name in scorer.mechanism.report_columns}
    return masses(scorer.mechanism, reports, weights, engine)[:, columns[0]]


def _log_bayes_factors(mechanism: Mechanism, adversary: Adversary, mass: Floats) -> Floats:
    """Return (reports, hypotheses) log Bayes factors; minus infinity where a report is impossible."""
    _, likelihood = report_likelihoods(mechanism, adversary, mass)
    with np.errstate(divide="ignore", invalid="ignore"):
        factors = np.log(likelihood) - np.log(likelihood.mean(axis=1, keepdims=True))
    return np.where(np.isnan(factors), -np.inf, factors)


def check_explained(top: int, why: bool) -> None:
    """Refuse explanations without top users, or of too many."""
    if why and not 1 <= top <= MAX_EXPLAINED:
        rule = f"must be from 1 to {MAX_EXPLAINED:,} with `why`"
        raise InputError(rule, value=top, place="top", remedy="it says how many users to explain")


def explain(
    opened: OpenReports, scorer: Scorer, top: Sequence[Mapping[str, Any]], strongest: pl.DataFrame, max_reports: int
) -> Explanations:
    """Explain the guesses about the top users: rows of the table of posteriors, with their log-odds."""
    names = {str(row["user"]) for row in top} | set(strongest["user"].to_list())
    sent = reports_of_users(opened, names, scorer.horizon, max_reports)
    universe, by_name = opened.reading.universe, {a.name: i for i, a in enumerate(scorer.adversaries)}
    users = [_explanation(scorer, by_name[row["adversary"]], row, sent[str(row["user"])], universe) for row in top]
    found: dict[str, list[StrongReport]] = {adversary.name: [] for adversary in scorer.adversaries}
    for row in strongest.iter_rows(named=True):
        index, reports = by_name[row["adversary"]], sent[row["user"]]
        one = {name: column[row["n"] - 1 : row["n"]] for name, column in reports.items()}
        weights = _object_weights(scorer.adversaries[index], row["pool"], None, None)
        objects = _likely_objects(scorer.mechanism, one, weights, universe)[0]
        found[row["adversary"]].append(
            StrongReport(
                user=row["user"], n=row["n"], pool=row["pool"], log_bayes_factor=row[BAYES_FACTOR], objects=objects
            )
        )
    return Explanations(users=users, strongest=found)


def reports_of_users(opened: OpenReports, names: set[str], horizon: int, max_reports: int) -> dict[str, Reports]:
    """Read the first reports of some users, up to the horizon."""
    wanted, held = pl.Series(sorted(names), dtype=pl.String), 0
    parts: dict[str, list[Reports]] = {name: [] for name in names}
    for chunk in opened.chunks:
        users, reports = opened.reading.block(chunk)
        texts = users.cast(pl.String)
        own = np.flatnonzero(texts.is_in(wanted.implode()).to_numpy())
        held += len(own)
        if held > max_reports:
            rule = f"must have at most {max_reports:,} reports of the users to explain"
            raise InputError(rule, value=held, place="top", remedy="explain fewer users")
        frame = pl.DataFrame({"user": texts.gather(own), "row": own})
        for (name,), rows in frame.group_by("user", maintain_order=True):
            which = rows["row"].to_numpy()
            parts[str(name)].append({column: values[which] for column, values in reports.items()})
    return {
        name: {column: np.concatenate([part[column] for part in some])[:horizon] for column in some[0]}
        for name, some in parts.items()
        if some
    }


def _explanation(
    scorer: Scorer, index: int, row: Mapping[str, Any], reports: Reports, universe: Universe
) -> Explanation:
    """Explain the guess of one adversary about one user."""
    adversary, mechanism = scorer.adversaries[index], scorer.mechanism
    reports = {name: column[: row["n"]] for name, column in reports.items()}
    weights, columns = stacked_pool_weights([adversary])
    mass = masses(mechanism, reports, weights, Local(threads=1))[:, columns[0]]
    factors = _log_bayes_factors(mechanism, adversary, mass)
    posterior = [row[f"posterior.{name}"] for name in adversary.hypotheses]
    guess = adversary.hypotheses[int(np.argmax(posterior))]
    gamma = delta = None
    if index in scorer.memoization_unaware:
        gamma, delta = _behavior(mechanism, adversary, mass)
    own = factors[:, adversary.hypotheses.index(guess)]
    strong = np.lexsort((np.arange(len(own)), -own))[:REPORTS]
    some = {name: column[strong] for name, column in reports.items()}
    likely = _likely_objects(mechanism, some, _object_weights(adversary, guess, gamma, delta), universe)
    level = DEFAULT_THRESHOLD if scorer.threshold is None else scorer.threshold
    column = next(name for name, value in exposed_columns(scorer.threshold).items() if value == level)
    return Explanation(
        user=str(row["user"]),
        adversary=adversary.name,
        guess=guess,
        n=row["n"],
        confidence=row["confidence"],
        log_odds=row[LOG_ODDS],
        threshold=level,
        exposed_at=row[column],
        reports=tuple(
            StrongReport(
                user=str(row["user"]), n=int(t) + 1, pool=guess, log_bayes_factor=float(own[t]), objects=objects
            )
            for t, objects in zip(strong, likely, strict=True)
        ),
        gamma=gamma,
        delta=delta,
    )


def _behavior(mechanism: Mechanism, adversary: Adversary, mass: Floats) -> tuple[Estimate | None, Estimate | None]:
    """Return the relevant interest and the polarization, with 95% intervals; no interest without neutral objects."""
    found = behavior_posterior(
        np.ascontiguousarray(mass),
        belief=adversary.belief,
        likelihood_offset=mechanism.likelihood_offset,
        likelihood_scale=mechanism.likelihood_scale,
    )
    gamma, delta = (
        Estimate(*(float(getattr(found, f"{name}{end}")[0]) for end in ("", "_low", "_high")))
        for name in ("gamma", "delta")
    )
    # the integral over gamma is one without neutral objects: see `posterior_block`
    return (gamma, delta) if adversary.universe.neutral_size else (None, None)


def _object_weights(adversary: Adversary, pool: str, gamma: Estimate | None, delta: Estimate | None) -> Floats:
    """Return (universe,) how often a user who prefers the pool picks each object.

    Without estimates, gamma and delta are the means under uniform priors.
    """
    universe, k = adversary.universe, adversary.k
    within = within_pools(universe, adversary.popularity, empty="uniform")
    interest = (0.5 if universe.neutral_size else 1.0) if gamma is None else gamma.value
    own = (1.0 + 1.0 / k) / 2 if delta is None else delta.value
    if pool == NONE:
        return np.where(universe.pool_of < 0, within, 0.0)
    preferred = universe.pool_names.index(pool)
    share = np.full(k + 1, interest * (1.0 - own) / (k - 1))
    share[0], share[preferred + 1] = 1.0 - interest, interest * own
    weights: Floats = share[universe.pool_of + 1] * within
    return weights


def _likely_objects(
    mechanism: Mechanism, reports: Reports, weights: Floats, universe: Universe
) -> list[tuple[LikelyObject, ...]]:
    """Return the likeliest objects of each report, given how often each object is picked."""
    return [tuple(_objects_of_one(mechanism, reports, row, weights, universe)) for row in range(report_count(reports))]


def _objects_of_one(
    mechanism: Mechanism, reports: Reports, row: int, weights: Floats, universe: Universe
) -> Iterator[LikelyObject]:
    one = {name: column[row : row + 1] for name, column in reports.items()}
    every = PoolWeights(np.arange(universe.size, dtype=np.uint32)[None], np.ones((1, universe.size)), universe.size)
    mass = mechanism.mass(one, every)[0]
    joint = weights * (mechanism.likelihood_offset + mechanism.likelihood_scale * mass)
    if (total := joint.sum()) > 0:
        best: Integers = np.lexsort((np.arange(len(joint)), -joint))[:OBJECTS]
        for z in best[joint[best] > 0]:
            name = str(z) if universe.objects is None else universe.objects[z]
            yield LikelyObject(object=name, probability=float(joint[z] / total))
