"""What an advice says: frozen records, and the files that hold them."""

from __future__ import annotations

import shutil
from os import PathLike
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field, InstanceOf

from poolscope import __version__
from poolscope.core.files import ANOTHER, check_new, claimed, located_os_errors
from poolscope.core.tables.atomic import write_text
from poolscope.metrics.bounds import CumulativeEpsilon
from poolscope.metrics.intervals import Estimate
from poolscope.metrics.models import (
    FORMAT,
    Count,
    Flag,
    Format,
    Real,
    Result,
    Seconds,
    Whole,
    as_text,
    result,
)
from poolscope.metrics.pools import PoolRecord
from poolscope.metrics.provenance import Provenance
from poolscope.metrics.usefulness import Usefulness
from poolscope.scenario.scenario import Scenario
from poolscope.workflows.advise.question import Budget, Question
from poolscope.workflows.advise.search import Errors, Trial
from poolscope.workflows.advise.setups import name_of
from poolscope.workflows.audit.run_folder import PlayedScenario, input_files

FILE, RECOMMENDED = "advice.json", "recommended.toml"


@result
class Finding(Result):
    """What one mechanism can do.

    Parameters
    ----------
    mechanism : its name; measure : what devices do beside it, of `question.MEASURES`; empty for nothing.
    epsilon_min : the smallest ε whose error is met; None where nobody asks for one, or none in the range does.
    epsilon_max : the largest ε by exposure, as `search.Found` has it; None where none in the range meets it.
    feasible : whether some ε meets all targets: "yes", "no", or "undecided" where the interval contains the
        target.
    limiting_constraint : what keeps ε from being better: "error", "exposure", "error and exposure" (they
        contradict each other), "range" (nothing within the range).
    at_epsilon_min : the trial at the smallest ε; its cap is the largest that serves.
    rmse_min : the smallest error in the range, where an error is asked for. Where none is small enough nothing is
        played, and there are no trials.
    rmse_at_epsilon_max : the error at the largest ε; devices_at_epsilon_max : how many devices would have the
        asked one.
    monotone : whether exposure was seen to grow with ε.
    trials : all that was played, by ε.
    """

    mechanism: str
    measure: str = ""
    epsilon_min: Real | None
    epsilon_max: Estimate | None
    feasible: str
    limiting_constraint: str
    at_epsilon_min: Trial | None
    rmse_min: Real | None
    rmse_at_epsilon_max: Real | None
    devices_at_epsilon_max: Real | None
    monotone: Flag
    trials: tuple[Trial, ...]

    @property
    def name(self) -> str:
        """Mechanism and measure."""
        return name_of(self.mechanism, self.measure)

    @property
    def epsilon(self) -> float:
        """The ε of a report that it would be recommended at, about."""
        if self.epsilon_min is not None:
            return self.epsilon_min
        assert self.epsilon_max is not None
        return self.epsilon_max.value


@result
class Attempt(Result):
    """A recommendation as held-out users played it; `meets_targets` is their verdict: "yes", "no" or "undecided"."""

    epsilon: Real
    cap: Whole
    users: Count
    exposed: Estimate
    meets_targets: str


@result
class Recommendation(Result):
    """The choice that is recommended, and what users who did not choose it say of it.

    Parameters
    ----------
    mechanism, epsilon, cap : the choice; cumulative_epsilon : what ε adds up to.
    meets_targets : whether it meets all targets, as verified: "yes", "no" or "undecided"; limiting_constraint : what
        keeps it from being better; reason : why this mechanism was chosen, in words.
    users, exposed : who verified it, and the share exposed by the asked number of events, or by the cap where that is
        smaller; exposed_at_cap : by as many events as fill the cap, which is for good.
    precision : share of users whose pool is guessed rightly at the cap; baseline : by chance; success_bound : the most
        that anyone can be right, of all adversaries.
    reports : how many reports errors are of; errors : in closed form; empirical_errors : on simulated reports; None
        where a mechanism has no estimate.
    shuffle_epsilon : the central ε of one report of each device, shuffled, at delta 1e-6; None without `devices`.
    shuffle_epsilon_total : of all reports up to the cap, each shuffled in a round of its own; None for memoized
        responses too.
    by_pool : the same users by the pool that they prefer, at the cap.
    attempts : all verifications, the last is the one that counts.
    measure : what devices do beside the mechanism; equally_good : names of options that another seed may recommend.
    """

    mechanism: str
    measure: str = ""
    epsilon: Real
    cap: Whole
    cumulative_epsilon: CumulativeEpsilon
    meets_targets: str
    limiting_constraint: str
    reason: str
    users: Count
    exposed: Estimate
    exposed_at_cap: Estimate
    precision: Estimate
    baseline: Real
    success_bound: Real
    reports: Count
    errors: Errors | None
    empirical_errors: Errors | None
    shuffle_epsilon: Real | None
    shuffle_epsilon_total: Real | None
    by_pool: tuple[PoolRecord, ...]
    attempts: tuple[Attempt, ...]
    equally_good: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """Mechanism and measure."""
        return name_of(self.mechanism, self.measure)


@result
class Option(Result):
    """One configuration, as the same held-out users of all options experience it.

    Parameters
    ----------
    mechanism, measure, parameters : what is sent, and what devices do beside it; parameters in words.
    epsilon : of a report; cumulative_epsilon : per day and year, and in total up to the cap.
    total_epsilon : by the horizon; of memoized responses, the longitudinal ε.
    reports : that a device sends by the horizon, on average; cap : in reports.
    exposed : share of `users` users of `seed` exposed by the horizon, observed at the counts `observations`.
    rmse : error of a frequency in one collection; None where there is no closed form.
    meets_targets : "yes", "no" or "undecided"; a cap below the horizon is "no", unless the measure pays for it.
    recommended, equally_good : whether it is chosen, or another seed may choose it.
    pareto_optimal : whether no option that may meet the targets is as good in ε, total ε, exposure, error
        and reports, and better in one, by two digits.
    price : against the recommended one, in words.
    """

    mechanism: str
    measure: str
    parameters: str
    epsilon: Real
    cumulative_epsilon: CumulativeEpsilon
    total_epsilon: Real
    reports: Real
    cap: Count
    users: Count
    seed: Whole
    observations: tuple[Count, ...]
    exposed: Estimate
    rmse: Real | None
    meets_targets: str
    recommended: Flag = False
    equally_good: Flag = False
    pareto_optimal: Flag = False
    price: str = ""

    @property
    def name(self) -> str:
        """Mechanism and measure."""
        return name_of(self.mechanism, self.measure)


@result
class Alternative(Result):
    """The mechanism that is best in one criterion, at the ε that it would be recommended at.

    Parameters
    ----------
    criterion : what it is best in; mechanism, epsilon : of a report.
    total_epsilon : by the asked number of events; users, exposed : share exposed by then, without a cap.
    cap : the largest number of events that exposes no more users than asked for, up to the horizon of the play.
    rmse : error of a frequency; None where there is no closed form. meets_targets : as `feasible` of a finding.
    """

    criterion: str
    mechanism: str
    measure: str = ""
    epsilon: Real
    total_epsilon: Real
    users: Count
    exposed: Estimate
    cap: Estimate
    rmse: Real | None
    meets_targets: str

    @property
    def name(self) -> str:
        """Mechanism and measure."""
        return name_of(self.mechanism, self.measure)


@result
class Case(Result):
    """What the recommendation would do under another assumption; `about` groups what varies one thing.

    `prior` says what the adversary believes of interest and polarization: "as asked", or "matched" to the users of the
    case, whichever exposes more of them.
    """

    about: str
    variant: str
    prior: str
    users: Count
    exposed: Estimate
    cap: Estimate


@result
class Mitigation(Result):
    """One measure, played: what it buys, what it costs, for the same error of the frequencies.

    Parameters
    ----------
    mitigation : in words; mechanism, epsilon : played with; devices : as a multiple of those there are.
    exposed : share of users exposed by the asked number of events; confident : of whom the adversary is sure then.
    cost : what it takes, in words.
    """

    mitigation: str
    mechanism: str
    epsilon: Real
    devices: Real
    users: Count
    exposed: Estimate
    confident: Estimate
    cost: str


@result
class Advice(Result):
    """The answer to a question about a scenario.

    Parameters
    ----------
    scenario, question, seed : what was asked about, and of which users.
    horizon : events that every trial was played to.
    findings : what each mechanism can do; recommendation : the choice; recommended : its scenario.
    alternatives : the mechanism that is best in each criterion, with its price.
    options : every configuration that was played, the recommended one first, then by preference.
    usefulness : what can be seen in the frequencies of the recommended one; None where there is no closed form.
    sentence : the recommendation in words; relaxations : of the targets, where nothing meets them; notes : further
        caveats.
    curve : share of the verifying users exposed by each number of events.
    sensitivity : the recommendation under other assumptions; mitigations : compared where they were asked for.
    assumptions, adversary : in words.
    seconds : how long it took; version : of poolscope that gave it; format : of the file.
    asked_users : how many users were asked for; None where the search chose. budgets : of mechanisms whose memoized
        responses the adversary groups reports by. provenance : what the same numbers need.

    Examples
    --------
    >>> scenario = ps.load_scenario("apple-emojis")
    >>> advice = ps.advise(scenario, max_exposed=0.1, horizon=7, mechanisms=["grr"], users=200, tolerance=0.2)
    >>> advice.recommendation.mechanism, advice.recommended.mechanism.kind
    ('grr', 'grr')
    """

    format: Format = FORMAT
    scenario: PlayedScenario
    question: Question
    seed: Whole
    version: str = __version__
    adversary: str
    horizon: Count
    sentence: str
    relaxations: tuple[str, ...]
    notes: tuple[str, ...]
    recommendation: Recommendation
    recommended: Annotated[InstanceOf[Scenario], Field(exclude=True)]
    alternatives: tuple[Alternative, ...]
    findings: Annotated[tuple[Finding, ...], Field(min_length=1)]
    curve: Annotated[tuple[Estimate, ...], Field(min_length=1)]
    sensitivity: tuple[Case, ...]
    mitigations: tuple[Mitigation, ...]
    assumptions: tuple[str, ...]
    seconds: Seconds
    options: tuple[Option, ...] = ()
    usefulness: Usefulness | None = None
    asked_users: Count | None = None
    budgets: dict[str, Budget] = Field(default_factory=dict)
    provenance: Provenance | None = None

    def write(self, out: str | PathLike[str]) -> None:
        """Put ``advice.json`` and ``recommended.toml``, with the files that it names, into a folder of its own."""
        write_advice(self, out)


def write_advice(advice: Any, out: str | PathLike[str]) -> None:
    """Write the files of an advice, on one collection or on several, into a folder of its own."""
    out = Path(out)
    with located_os_errors(out, ANOTHER), claimed(out):
        check_new(out)
        for name in input_files(advice.scenario):
            (out / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(advice.scenario.resolve(name), out / name)
        write_text(out / RECOMMENDED, advice.recommended.text)
        write_text(out / FILE, as_text(advice))
