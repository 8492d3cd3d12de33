"""What an advice on several collections of one person says: frozen records, and the files that hold them."""

from __future__ import annotations

from os import PathLike
from pathlib import Path
from typing import Annotated

from pydantic import Field, InstanceOf

from poolscope import __version__
from poolscope.core.errors import located
from poolscope.core.files import read_json
from poolscope.metrics.bounds import CumulativeEpsilon
from poolscope.metrics.intervals import Estimate
from poolscope.metrics.models import FORMAT, Count, Format, Real, Result, Seconds, Whole, read_model, result
from poolscope.metrics.pools import PoolRecord
from poolscope.metrics.provenance import Provenance
from poolscope.scenario.scenario import Scenario, load_scenario
from poolscope.workflows.advise.question import MIN_EXPOSURE, Question
from poolscope.workflows.advise.records import FILE, RECOMMENDED, Advice, write_advice
from poolscope.workflows.audit.run_folder import PlayedScenario


@result
class CollectionsQuestion(Question):
    """The targets of several collections; those of a single one that have no meaning here are None or empty.

    Parameters
    ----------
    horizon : days after which at most `max_exposed` of the users may be exposed by all collections together.
    max_errors : the most that the RMSE of a frequency may be, for each collection with a target.
    """

    max_errors: dict[str, Real]

    @property
    def fixes_epsilon(self) -> bool:
        """Whether error targets set every ε, so that caps are allocated; otherwise values of ε are."""
        return bool(self.max_errors) and self.prefer == MIN_EXPOSURE


@result
class CollectionSetting(Result):
    """What one collection does in an allocation: the ε of a report, and the days on which it reports."""

    collection: str
    epsilon: Real
    days: Count


@result
class AllocationStep(Result):
    """An allocation that the search kept, as the users of the search experience it.

    Parameters
    ----------
    step : "equal shares", "raise" (there was room for more of one collection) or "exchange".
    giver, taker : collections whose level fell and rose; None where there is none.
    settings : of every collection; users, exposed : who played, and the share exposed jointly.
    gain : sum over collections of the log of the error's decrease, or of the cap's increase, against equal shares.
    """

    step: str
    giver: str | None
    taker: str | None
    settings: tuple[CollectionSetting, ...]
    users: Count
    exposed: Estimate
    gain: Real


@result
class CollectionsAttempt(Result):
    """An allocation as held-out users played it; `meets_targets` is their verdict: "yes", "no" or "undecided"."""

    settings: tuple[CollectionSetting, ...]
    users: Count
    exposed: Estimate
    meets_targets: str


@result
class CollectionChoice(Result):
    """What is recommended for one collection, and what the collection costs.

    Parameters
    ----------
    collection, mechanism : its name, and what it sends; epsilon : of a report.
    cap : reports of a device at most; days : until the cap is reached.
    cumulative_epsilon : what ε adds up to.
    epsilon_min : the smallest ε that meets the error target; max_error : the target. None where there is none.
    reports, rmse : of how many reports errors are, and the analytical one; empirical_rmse : on simulated reports.
    exposed_alone, exposed_without : share of the held-out users exposed by this collection alone, and by all others,
        by the last day of any collection.
    cost : share exposed by all collections minus that without this one, of the same users.
    limiting_constraint : what keeps its ε or cap from being better: "error", "exposure", "error and exposure"
        (they contradict each other), or "range" (of the search).
    """

    collection: str
    mechanism: str
    epsilon: Real
    cap: Count
    days: Count
    cumulative_epsilon: CumulativeEpsilon
    epsilon_min: Real | None
    max_error: Real | None
    reports: Count
    rmse: Real
    empirical_rmse: Real | None
    exposed_alone: Estimate
    exposed_without: Estimate
    cost: Estimate
    limiting_constraint: str


@result
class CollectionsRecommendation(Result):
    """The allocation that is recommended, and what users who did not choose it say of it.

    Parameters
    ----------
    meets_targets : whether it meets all targets, as verified: "yes", "no" or "undecided"; limiting_constraint : what
        keeps it from being better; reason : what the exchange changed, in words.
    users, exposed : who verified it, and the share exposed by the asked day, or by the last day where that is earlier.
    exposed_at_cap : share exposed by `last_day`, when all caps are reached.
    precision : share of users whose value of the attribute is guessed rightly on the last day; baseline : by random
        guessing; success_bound : the most that any adversary can be right.
    epsilon_day, epsilon_year : sums over collections; None where a collection memoizes.
    by_value : the same users by the value of their attribute, on the last day.
    attempts : all verifications, the last is the one that counts.
    """

    meets_targets: str
    limiting_constraint: str
    reason: str
    users: Count
    exposed: Estimate
    last_day: Count
    exposed_at_cap: Estimate
    precision: Estimate
    baseline: Real
    success_bound: Real
    epsilon_day: Real | None
    epsilon_year: Real | None
    by_value: tuple[PoolRecord, ...]
    attempts: tuple[CollectionsAttempt, ...]


@result
class CollectionsAdvice(Result):
    """The answer to a question about several collections of one person.

    Parameters
    ----------
    scenario, question, seed : what was asked about, and of which users.
    horizon : days to which the search went; no longer cap is known.
    recommendation : the allocation; collections : what it is for each, and what each costs; recommended : its scenario.
    steps : from equal shares to the allocation of the search, before it was refined and verified.
    sentence : the recommendation in words; relaxations : of the targets, where nothing meets them; notes : further
        caveats.
    curve : share of the verifying users exposed by all collections together by each day.
    assumptions, adversary : in words.
    seconds : how long it took; version : of poolscope that gave it; format : of the file.
    asked_users : how many users were asked for; None where the search chose. provenance : what the same numbers need.

    Examples
    --------
    >>> scenario = ps.load_scenario("apple-collections")
    >>> asked = {"max_exposed": 0.2, "horizon": 3, "threshold": 0.6, "adversary": "weak", "users": 100}
    >>> advice = ps.advise(scenario, max_error={}, **asked, epsilon=(1.0, 4.0))
    >>> [(one.collection, one.limiting_constraint) for one in advice.collections]
    [('emojis', 'range'), ('domains', 'range')]
    """

    format: Format = FORMAT
    scenario: PlayedScenario
    question: CollectionsQuestion
    seed: Whole
    version: str = __version__
    adversary: str
    horizon: Count
    sentence: str
    relaxations: tuple[str, ...]
    notes: tuple[str, ...]
    recommendation: CollectionsRecommendation
    recommended: Annotated[InstanceOf[Scenario], Field(exclude=True)]
    collections: Annotated[tuple[CollectionChoice, ...], Field(min_length=1)]
    steps: Annotated[tuple[AllocationStep, ...], Field(min_length=1)]
    curve: Annotated[tuple[Estimate, ...], Field(min_length=1)]
    assumptions: tuple[str, ...]
    seconds: Seconds
    asked_users: Count | None = None
    provenance: Provenance | None = None

    def write(self, out: str | PathLike[str]) -> None:
        """Put ``advice.json`` and ``recommended.toml``, with the files that it names, into a folder of its own."""
        write_advice(self, out)


def read_advice(folder: Path) -> Advice | CollectionsAdvice:
    """The advice that lies in a folder; an ``InputError`` says what is missing or malformed."""
    recommended, path = load_scenario(folder / RECOMMENDED), folder / FILE
    found = read_json(path)
    kind: type[Advice] | type[CollectionsAdvice] = CollectionsAdvice if recommended.collections else Advice
    with located(file=path):
        return read_model(kind, found | {"recommended": recommended} if isinstance(found, dict) else found)
