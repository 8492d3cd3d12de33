"""Outcomes to numbers with intervals.

All but ``summarize``, ``select``, the bounds and those that say so take the rows of one adversary at one observation
count n, a row per user (``select``), and give an ``Estimate``: a value and its 95% interval. Bounds follow from
ε alone, as does what it adds up to in time (``cumulative_epsilon``); ``linkability`` takes a game.
"""

from poolscope.metrics.bounds import (
    CumulativeEpsilon,
    MemoizedResponses,
    TradeOff,
    cumulative_epsilon,
    memoized_by,
    success_bound,
    trade_off,
)
from poolscope.metrics.calibration import brier, calibration, ece, ece_null_p95
from poolscope.metrics.collections import (
    CollectionRecord,
    CollectionsSummary,
    Contribution,
    JointExposure,
    SampledAttribute,
    TupleEpsilon,
)
from poolscope.metrics.composition import composed_success_bound
from poolscope.metrics.exposure import (
    confident,
    exposed,
    exposure,
    exposure_by_adversary,
    precision_at_threshold,
    reports_to_exposure,
)
from poolscope.metrics.fitted import BetaRecord, EdgePopulation, Fitted
from poolscope.metrics.gates import GateResult, gate
from poolscope.metrics.intervals import Estimate
from poolscope.metrics.leakage import bayes_risk_ratio, bayes_security, log_odds_gain, min_entropy_leakage
from poolscope.metrics.linkability import Linkability, linkability
from poolscope.metrics.pools import PoolRecord, per_pool
from poolscope.metrics.precision import (
    auc_pn,
    behavior_map,
    for_each_attack,
    precision,
    precision_curve,
    select,
    successes,
)
from poolscope.metrics.records import Record, summarize
from poolscope.metrics.resampling import bootstrap, difference
from poolscope.metrics.shuffling import shuffle_epsilon, shuffle_epsilon_closed_form, shuffle_epsilon_of_mechanism
from poolscope.metrics.tables import Records
from poolscope.metrics.text import strongest_attack, summary_text
from poolscope.metrics.usefulness import Usefulness, top_recall, usefulness

__all__ = [
    "BetaRecord",
    "CollectionRecord",
    "CollectionsSummary",
    "Contribution",
    "CumulativeEpsilon",
    "EdgePopulation",
    "Estimate",
    "Fitted",
    "GateResult",
    "JointExposure",
    "Linkability",
    "MemoizedResponses",
    "PoolRecord",
    "Record",
    "Records",
    "SampledAttribute",
    "TradeOff",
    "TupleEpsilon",
    "Usefulness",
    "auc_pn",
    "bayes_risk_ratio",
    "bayes_security",
    "behavior_map",
    "bootstrap",
    "brier",
    "calibration",
    "composed_success_bound",
    "confident",
    "cumulative_epsilon",
    "difference",
    "ece",
    "ece_null_p95",
    "exposed",
    "exposure",
    "exposure_by_adversary",
    "for_each_attack",
    "gate",
    "linkability",
    "log_odds_gain",
    "memoized_by",
    "min_entropy_leakage",
    "per_pool",
    "precision",
    "precision_at_threshold",
    "precision_curve",
    "reports_to_exposure",
    "select",
    "shuffle_epsilon",
    "shuffle_epsilon_closed_form",
    "shuffle_epsilon_of_mechanism",
    "strongest_attack",
    "success_bound",
    "successes",
    "summarize",
    "summary_text",
    "top_recall",
    "trade_off",
    "usefulness",
]


def __dir__() -> list[str]:
    return __all__
