"""Outcomes to numbers with intervals.

All but ``summarise``, ``select``, the bounds and those that say so take the rows of one adversary at one observation
count n, a row per user (``select``), and give an ``Estimate``: a value and its 95 % interval. Bounds follow from
epsilon alone, as does what it adds up to in time (``epsilon_in_time``); ``trackability`` takes a game.
"""

from poolscope.metrics.bounds import (
    EpsilonInTime,
    KeptAnswers,
    TradeOff,
    epsilon_in_time,
    kept_by,
    most_right,
    trade_off,
)
from poolscope.metrics.calibration import brier, calibration, calibration_error, calibration_limit
from poolscope.metrics.exposure import (
    exposed,
    exposure,
    exposure_by_adversary,
    precision_when_sure,
    reports_to_exposure,
    sure,
)
from poolscope.metrics.intervals import Estimate
from poolscope.metrics.leakage import bayes_security, bayes_security_least, evidence, min_entropy_leakage
from poolscope.metrics.linkability import Trackability, trackability
from poolscope.metrics.pools import PoolRecord, per_pool
from poolscope.metrics.precision import (
    auc,
    behaviour_map,
    for_each_attack,
    precision,
    precision_curve,
    select,
    successes,
)
from poolscope.metrics.records import Record, summarise
from poolscope.metrics.shuffling import shuffled_epsilon, shuffled_epsilon_in_closed_form, shuffled_epsilon_of
from poolscope.metrics.tables import Records
from poolscope.metrics.text import headline, in_plain_words

__all__ = [
    "EpsilonInTime",
    "Estimate",
    "KeptAnswers",
    "PoolRecord",
    "Record",
    "Records",
    "Trackability",
    "TradeOff",
    "auc",
    "bayes_security",
    "bayes_security_least",
    "behaviour_map",
    "brier",
    "calibration",
    "calibration_error",
    "calibration_limit",
    "epsilon_in_time",
    "evidence",
    "exposed",
    "exposure",
    "exposure_by_adversary",
    "for_each_attack",
    "headline",
    "in_plain_words",
    "kept_by",
    "min_entropy_leakage",
    "most_right",
    "per_pool",
    "precision",
    "precision_curve",
    "precision_when_sure",
    "reports_to_exposure",
    "select",
    "shuffled_epsilon",
    "shuffled_epsilon_in_closed_form",
    "shuffled_epsilon_of",
    "successes",
    "summarise",
    "sure",
    "trackability",
    "trade_off",
]
