r"""Whether the error of a frequency estimate leaves anything to see: objects above it, the top of the list, more time.

Of r reports of each of N devices, noise averages out over all N r. The events of one user may all be alike, so that
the draw of objects counts once for each device:

.. math:: \mathrm{MSE}(r) = \text{noise}(N r) + \frac{f (1 - f)}{N} ,

which is exact for r = 1 and never too small for more. Memoized responses repeat their noise: there r counts as 1.

A top-k list is the k objects with the largest estimates. With normal errors, a threshold T is exceeded by k estimates
on average, and the expected recall is the mean probability that an object of the true top k exceeds it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import scipy
from scipy import special

from poolscope.core.arrays import Floats
from poolscope.core.counting import counted
from poolscope.core.errors import check_count
from poolscope.devices.policy import ReportingPolicy
from poolscope.mechanisms.protocols import Mechanism
from poolscope.metrics.models import Count, Real, Result, Whole, result
from poolscope.population.universe import NEUTRAL, Universe
from poolscope.reports.frequencies import closed_estimator
from poolscope.reports.utility import expected_errors_of_estimator

#: An object stands out where its frequency is this many of its standard errors.
STANDS_OUT = 2.0

#: Lengths of the top lists, where the universe is larger.
TOP_LENGTHS = (10, 50)

#: Days after which the error is computed; events where the rate of reports is unknown.
PERIODS = (1, 7, 30, 90, 365)

#: Pools that a sentence names at most.
MAX_NAMED = 6

NEUTRAL_NAME = "neutral"


@result
class PoolUsefulness(Result):
    """The objects of one pool: how many there are, how many stand out, and their RMSE and largest frequency."""

    pool: str
    objects: Count
    n_above: Whole
    rmse: Real
    largest: Real


@result
class TopRecall(Result):
    """The expected share of the true top k in the estimated top k."""

    k: Count
    recall: Real


@result
class PeriodUsefulness(Result):
    """The error after some events of each device.

    Parameters
    ----------
    events, days : after how many, and in how many days; None without a rate of reports.
    reports : of each device by then, on average, with its cap.
    rmse, n_above : with the cap; rmse_uncapped : if devices had no cap.
    """

    events: Count
    days: Real | None
    reports: Real
    rmse: Real
    n_above: Whole
    rmse_uncapped: Real


@result
class Usefulness(Result):
    """What can be seen in frequencies that are estimated from some reports.

    Parameters
    ----------
    reports : how many; rmse : error of a frequency, over all objects.
    objects : how many there are; n_above : those whose frequency is above twice its standard error.
    by_pool : the same for each pool, and for neutral objects where there are any.
    top : expected recall of lists of the most frequent objects.
    over_time : the error as devices send more reports; empty where the number of devices is unknown.

    Examples
    --------
    >>> universe = ps.Universe.sized(30, {"a": 5, "b": 5, "c": 5})
    >>> found = ps.metrics.usefulness(mechanism, universe, np.arange(1, 31), reports=10_000)
    >>> found.objects, found.n_above, [one.pool for one in found.by_pool]
    (30, 27, ['a', 'b', 'c', 'neutral'])
    """

    reports: Count
    rmse: Real
    objects: Count
    n_above: Whole
    by_pool: tuple[PoolUsefulness, ...]
    top: tuple[TopRecall, ...]
    over_time: tuple[PeriodUsefulness, ...] = ()


def usefulness(
    mechanism: Mechanism,
    universe: Universe,
    popularity: Floats,
    reports: float,
    *,
    policy: ReportingPolicy | None = None,
    memoizes: bool = False,
    devices: float | None = None,
    horizon: int | None = None,
) -> Usefulness | None:
    """Return what can be seen in frequencies from this many reports; None where the error has no closed form.

    Parameters
    ----------
    popularity : the true one, up to a factor; reports : those of one collection.
    policy, memoizes, devices, horizon : what each of this many devices sends, up to which event: for `over_time`.

    Examples
    --------
    >>> universe = ps.Universe.sized(30, {"a": 5, "b": 5, "c": 5})
    >>> few, many = (ps.metrics.usefulness(mechanism, universe, np.arange(1, 31), n) for n in (100, 10_000))
    >>> few.n_above < many.n_above, few.rmse > many.rmse
    (True, True)
    """
    frequency = np.asarray(popularity, dtype=np.float64) / np.sum(popularity)
    errors = standard_errors(mechanism, frequency, reports)
    if errors is None:
        return None
    over_time: tuple[PeriodUsefulness, ...] = ()
    if policy is not None and devices is not None:
        over_time = tuple(_over_time(mechanism, frequency, devices, policy, memoizes, horizon or 1))
    lengths = [k for k in TOP_LENGTHS if k < universe.size] or [max(1, universe.size // 2)]
    return Usefulness(
        reports=max(1, round(reports)),
        rmse=_rmse(errors),
        objects=universe.size,
        n_above=_above(frequency, errors),
        by_pool=tuple(usefulness_by_pool(universe, frequency, errors)),
        top=tuple(TopRecall(k=k, recall=top_recall(frequency, errors, k)) for k in lengths),
        over_time=over_time,
    )


def standard_errors(
    mechanism: Mechanism, frequency: Floats, devices: float, reports_each: float = 1.0
) -> Floats | None:
    """Return the standard error of each frequency, (objects,), after some reports of each device, see the module.

    Fewer than one report of each are those of as many fewer devices. None where there is no closed form.
    """
    estimator = closed_estimator(mechanism)
    if estimator is None:
        return None
    reports, senders = max(1, round(devices * reports_each)), max(1, round(devices * min(1.0, reports_each)))
    squared, _ = expected_errors_of_estimator(estimator, mechanism, frequency, reports)
    if squared is None:
        return None
    noise = np.maximum(squared - frequency * (1 - frequency) / reports, 0.0)
    found: Floats = np.sqrt(noise + frequency * (1 - frequency) / senders)
    return found


def top_recall(frequency: Floats, errors: Floats, k: int) -> float:
    """Return the expected recall of the k most frequent objects, for normal and independent errors of (objects,).

    Examples
    --------
    >>> round(ps.metrics.top_recall(np.array([0.5, 0.3, 0.2]), np.array([1e-9, 1e-9, 1e-9]), k=1), 6)
    1.0
    """
    check_count("k", k)
    if k >= len(frequency):
        return 1.0
    spread = np.maximum(errors, np.finfo(np.float64).tiny)

    def excess(threshold: float) -> float:
        return float(special.ndtr((frequency - threshold) / spread).sum()) - k

    reach = 40 * float(spread.max())
    threshold = scipy.optimize.brentq(
        excess, float(frequency.min()) - reach, float(frequency.max()) + reach, xtol=1e-15
    )
    first = np.argsort(-frequency, kind="stable")[:k]
    return float(special.ndtr((frequency[first] - threshold) / spread[first]).mean())


def _over_time(
    mechanism: Mechanism, frequency: Floats, devices: float, policy: ReportingPolicy, memoizes: bool, horizon: int
) -> Iterator[PeriodUsefulness]:
    """Yield the error after each period, and at the horizon."""
    rate = policy.reports_per_day
    last = horizon if rate is None else max(horizon, round(PERIODS[-1] * rate))
    events = sorted({n for days in PERIODS if 1 <= (n := round(days * (rate or 1))) <= last} | {horizon})
    for n in events:
        capped, free = policy.mean_reports(n), policy.sampling_rate * n
        found, uncapped = (
            standard_errors(mechanism, frequency, devices, min(1.0, r) if memoizes else r) for r in (capped, free)
        )
        assert found is not None
        assert uncapped is not None
        yield PeriodUsefulness(
            events=n,
            days=None if rate is None else n / rate,
            reports=capped,
            rmse=_rmse(found),
            n_above=_above(frequency, found),
            rmse_uncapped=_rmse(uncapped),
        )


def usefulness_by_pool(universe: Universe, frequency: Floats, errors: Floats) -> Iterator[PoolUsefulness]:
    """Yield each pool; neutral objects last, where there are any."""
    named = [*enumerate(universe.pool_names), (NEUTRAL, NEUTRAL_NAME)]
    for index, name in named:
        own = universe.pool_of == index
        if own.any():
            yield PoolUsefulness(
                pool=name,
                objects=int(own.sum()),
                n_above=_above(frequency[own], errors[own]),
                rmse=_rmse(errors[own]),
                largest=float(frequency[own].max()),
            )


def _rmse(errors: Floats) -> float:
    return float(np.sqrt(np.mean(np.square(errors))))


def _above(frequency: Floats, errors: Floats) -> int:
    """Count the objects that stand out."""
    return int((frequency > STANDS_OUT * errors).sum())


def describe_usefulness(found: Usefulness) -> str:
    """Return what can be seen, as "RMSE 0.001: 60 of 800 objects are above twice their standard error"."""
    text = (
        f"RMSE {found.rmse:.3g} from {counted(found.reports, 'report')}: {found.n_above:,} of {found.objects:,} "
        "objects are above twice their standard error"
    )
    interesting = [one for one in found.by_pool if one.pool != NEUTRAL_NAME]
    unseen = [one.pool for one in interesting if one.n_above == 0]
    if found.n_above and unseen:
        text += f", none of {_named(unseen)}" if len(unseen) < len(interesting) else ", none of any pool"
    (first, *_) = found.top
    return (
        f"{text}. The estimated top {first.k} holds {first.recall * first.k:.1f} of the true top {first.k} on average."
    )


def _named(names: Sequence[str]) -> str:
    """Return names as "a, b or c"; of many, the first ones."""
    shown = [*names[:MAX_NAMED], *([f"{len(names) - MAX_NAMED} more pools"] if len(names) > MAX_NAMED else [])]
    return shown[0] if len(shown) == 1 else f"{', '.join(shown[:-1])} or {shown[-1]}"
