"""What an advice says: frozen records, and the files that hold them."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, is_dataclass
from os import PathLike
from pathlib import Path
from typing import Any

from poolscope import __version__
from poolscope.core.errors import InputError, located
from poolscope.core.files import ANOTHER, check_new, claimed, located_os_errors, plain, read_json
from poolscope.core.tables.atomic import write_text
from poolscope.metrics.bounds import CumulativeEpsilon
from poolscope.metrics.intervals import Estimate
from poolscope.metrics.pools import PoolRecord
from poolscope.metrics.reading import ENDS, record_from
from poolscope.scenario.scenario import Scenario, load_scenario, scenario_from_record
from poolscope.workflows.advise.question import Question
from poolscope.workflows.advise.search import Errors, Trial
from poolscope.workflows.audit.run_folder import input_files

FILE, RECOMMENDED = "advice.json", "recommended.toml"


@dataclass(frozen=True, kw_only=True)
class Finding:
    """What one mechanism can do.

    Parameters
    ----------
    mechanism : its name.
    epsilon_min : the smallest epsilon whose error is met; None where nobody asks for one, or none in the range does.
    epsilon_max : the largest epsilon by exposure, as `search.Found` has it; None where none in the range meets it.
    feasible : whether some epsilon meets all targets: "yes", "no", or "undecided" where the interval contains the
        target.
    limiting_constraint : what keeps epsilon from being better: "error", "exposure", "error and exposure" (they
        contradict each other), "range" (nothing within the range).
    at_epsilon_min : the trial at the smallest epsilon; its cap is the largest that serves.
    rmse_min : the smallest error in the range, where an error is asked for. Where none is small enough nothing is
        played, and there are no trials.
    rmse_at_epsilon_max : the error at the largest epsilon; devices_at_epsilon_max : how many devices would have the
        asked one.
    monotone : whether exposure was seen to grow with epsilon.
    trials : all that was played, by epsilon.
    """

    mechanism: str
    epsilon_min: float | None
    epsilon_max: Estimate | None
    feasible: str
    limiting_constraint: str
    at_epsilon_min: Trial | None
    rmse_min: float | None
    rmse_at_epsilon_max: float | None
    devices_at_epsilon_max: float | None
    monotone: bool
    trials: tuple[Trial, ...]

    @property
    def epsilon(self) -> float:
        """The epsilon of a report that it would be recommended at, about."""
        if self.epsilon_min is not None:
            return self.epsilon_min
        assert self.epsilon_max is not None
        return self.epsilon_max.value


@dataclass(frozen=True, kw_only=True)
class Attempt:
    """A recommendation as held-out users played it; `meets_targets` is their verdict: "yes", "no" or "undecided"."""

    epsilon: float
    cap: int
    users: int
    exposed: Estimate
    meets_targets: str


@dataclass(frozen=True, kw_only=True)
class Recommendation:
    """The choice that is recommended, and what users who did not choose it say of it.

    Parameters
    ----------
    mechanism, epsilon, cap : the choice; cumulative_epsilon : what epsilon adds up to.
    meets_targets : whether it meets all targets, as verified: "yes", "no" or "undecided"; limiting_constraint : what
        keeps it from being better; reason : why this mechanism was chosen, in words.
    users, exposed : who verified it, and the share exposed by the asked number of events, or by the cap where that is
        smaller; exposed_at_cap : by as many events as fill the cap, which is for good.
    precision : share of users whose pool is guessed rightly at the cap; baseline : by chance; success_bound : the most
        that anyone can be right, of all adversaries.
    reports : how many reports errors are of; errors : in closed form; empirical_errors : on simulated reports; None
        where a mechanism has no estimate.
    shuffle_epsilon : the central epsilon of one report of each device, shuffled, at delta 1e-6; None without `devices`.
    shuffle_epsilon_total : of all reports up to the cap, each shuffled in a round of its own; None for memoized
        responses too.
    by_pool : the same users by the pool that they prefer, at the cap.
    attempts : all verifications, the last is the one that counts.
    """

    mechanism: str
    epsilon: float
    cap: int
    cumulative_epsilon: CumulativeEpsilon
    meets_targets: str
    limiting_constraint: str
    reason: str
    users: int
    exposed: Estimate
    exposed_at_cap: Estimate
    precision: Estimate
    baseline: float
    success_bound: float
    reports: int
    errors: Errors | None
    empirical_errors: Errors | None
    shuffle_epsilon: float | None
    shuffle_epsilon_total: float | None
    by_pool: tuple[PoolRecord, ...]
    attempts: tuple[Attempt, ...]


@dataclass(frozen=True, kw_only=True)
class Alternative:
    """The mechanism that is best in one criterion, at the epsilon that it would be recommended at.

    Parameters
    ----------
    criterion : what it is best in; mechanism, epsilon : of a report.
    total_epsilon : by the asked number of events; users, exposed : share exposed by then, without a cap.
    cap : the largest number of events that exposes no more users than asked for, up to the horizon of the play.
    rmse : error of a frequency; None where there is no closed form. meets_targets : as `feasible` of a finding.
    """

    criterion: str
    mechanism: str
    epsilon: float
    total_epsilon: float
    users: int
    exposed: Estimate
    cap: Estimate
    rmse: float | None
    meets_targets: str


@dataclass(frozen=True, kw_only=True)
class Case:
    """What the recommendation would do under another assumption; `about` groups what varies one thing.

    `prior` says what the adversary believes of interest and polarization: "as asked", or "matched" to the users of the
    case, whichever exposes more of them.
    """

    about: str
    variant: str
    prior: str
    users: int
    exposed: Estimate
    cap: Estimate


@dataclass(frozen=True, kw_only=True)
class Mitigation:
    """One measure, played: what it buys, what it costs, for the same error of the frequencies.

    Parameters
    ----------
    mitigation : in words; mechanism, epsilon : played with; devices : as a multiple of those there are.
    exposed : share of users exposed by the asked number of events; confident : of whom the adversary is sure then.
    cost : what it takes, in words.
    """

    mitigation: str
    mechanism: str
    epsilon: float
    devices: float
    users: int
    exposed: Estimate
    confident: Estimate
    cost: str


@dataclass(frozen=True, kw_only=True)
class Advice:
    """The answer to a question about a scenario.

    Parameters
    ----------
    scenario, question, seed : what was asked about, and of which users.
    horizon : events that every trial was played to.
    findings : what each mechanism can do; recommendation : the choice; recommended : its scenario.
    alternatives : the mechanism that is best in each criterion, with its price.
    sentence : the recommendation in words; relaxations : what would have to give, where nothing fits; notes : what else
        a reader must know.
    curve : share of the verifying users exposed by each number of events.
    sensitivity : what the answer hangs on; mitigations : measures side by side, if they were asked for.
    assumptions : what all this takes for granted, in words; adversary : who attacks, in words.
    seconds : how long it took; version : of poolscope that gave it.

    Examples
    --------
    >>> scenario = ps.load_scenario("apple-emojis")
    >>> advice = ps.advise(scenario, max_exposed=0.1, horizon=7, mechanisms=["grr"], users=200, tolerance=0.2)
    >>> advice.recommendation.mechanism, advice.recommended.mechanism.kind
    ('grr', 'grr')
    """

    scenario: Scenario
    question: Question
    seed: int
    horizon: int
    findings: tuple[Finding, ...]
    recommendation: Recommendation
    recommended: Scenario
    alternatives: tuple[Alternative, ...]
    sentence: str
    relaxations: tuple[str, ...]
    notes: tuple[str, ...]
    curve: tuple[Estimate, ...]
    sensitivity: tuple[Case, ...]
    mitigations: tuple[Mitigation, ...]
    assumptions: tuple[str, ...]
    adversary: str
    seconds: float
    version: str = __version__

    def as_json(self) -> dict[str, Any]:
        """The content of ``advice.json``."""
        return {
            "scenario": self.scenario.about(),
            "question": plain(asdict(self.question)),
            "seed": self.seed,
            "version": self.version,
            "adversary": self.adversary,
            "horizon": self.horizon,
            "sentence": self.sentence,
            "relaxations": list(self.relaxations),
            "notes": list(self.notes),
            "recommendation": flat(self.recommendation),
            "alternatives": [flat(alternative) for alternative in self.alternatives],
            "findings": [flat(finding) for finding in self.findings],
            "curve": [list(share) for share in self.curve],
            "sensitivity": [flat(case) for case in self.sensitivity],
            "mitigations": [flat(mitigation) for mitigation in self.mitigations],
            "assumptions": list(self.assumptions),
            "seconds": round(self.seconds, 3),
        }

    def write(self, out: str | PathLike[str]) -> None:
        """Put ``advice.json`` and ``recommended.toml``, with the files that it names, into a folder of its own."""
        out = Path(out)
        text = json.dumps(self.as_json(), indent=1, allow_nan=False, ensure_ascii=False)
        with located_os_errors(out, ANOTHER), claimed(out):
            check_new(out)
            for name in input_files(self.scenario):
                (out / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(self.scenario.resolve(name), out / name)
            write_text(out / RECOMMENDED, self.recommended.text)
            write_text(out / FILE, text + "\n")


def read_advice(folder: Path) -> Advice:
    """The advice that lies in a folder; an ``InputError`` says what is missing or malformed."""
    recommended, path = load_scenario(folder / RECOMMENDED), folder / FILE
    found = read_json(path)
    with located(file=path):
        if not isinstance(found, dict):
            raise InputError("must be an object", value=found)
        advice = record_from(
            Advice, found | {"recommended": recommended.about()}, readers={Scenario: scenario_from_record}
        )
        if not advice.findings or not advice.curve:
            raise InputError("must not be empty", place="findings" if not advice.findings else "curve")
    return advice


def flat(record: Any) -> Any:
    """A record for JSON: an estimate is three numbers, as ``exposed``, ``exposed_low`` and ``exposed_high``."""
    if isinstance(record, tuple | list):
        return [flat(entry) for entry in record]
    if not is_dataclass(record):
        return plain(dict(record) if isinstance(record, Mapping) else record)
    facts: dict[str, Any] = {}
    for entry in fields(record):
        value = getattr(record, entry.name)
        if isinstance(value, Estimate):
            facts |= {f"{entry.name}{end}": plain(part) for end, part in zip(ENDS, value, strict=True)}
        else:
            facts[entry.name] = flat(value)
    return facts
