"""The record of an attack as JSON: what `attack --json` prints."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import PlainSerializer

from poolscope import __version__
from poolscope.core.files import json_safe
from poolscope.metrics.intervals import Estimate
from poolscope.metrics.models import FORMAT, Count, Flag, Format, Real, Result, Whole, result
from poolscope.scenario.scenario import Scenario
from poolscope.workflows.attack.attack import Inferred
from poolscope.workflows.attack.explanation import Explanation, StrongReport
from poolscope.workflows.attack.inspection import Inspection
from poolscope.workflows.attack.summary import ExpectedCorrect

Row = Annotated[dict[str, Any], PlainSerializer(json_safe, when_used="json")]


@result
class GuessRecord(Result):
    """How confident one adversary is after n reports of each user, null for all reports, and what it guesses."""

    adversary: str
    n: Count | None
    reports: Count
    confidence: Real
    baseline: Real
    confident_at_threshold: dict[str, Whole]
    expected: tuple[ExpectedCorrect, ...]
    guesses: dict[str, Whole]
    no_guess: Whole


@result
class StrongestReports(Result):
    """The reports of all users with the largest Bayes factors, for one adversary."""

    adversary: str
    reports: tuple[StrongReport, ...]


@result
class EvaluationRecord(Result):
    """How often one adversary is correct about the users of the ground truth (`Evaluation`)."""

    adversary: str
    users: Whole
    guessed: Whole
    precision: Estimate | None
    ece: Estimate | None
    ece_null_p95: Real | None
    calibrated: Flag | None


@result
class CollectionReportsRecord(Result):
    """The reports of one of several collections, and the checks of these (`CollectionReports`)."""

    name: str
    users: Whole
    reports: Whole
    inspection: Inspection


@result
class AttackRecord(Result):
    """The record of an attack on a file: the checks of the reports, summaries, top users and explanations.

    `evaluation` needs the ground truth; `devices` is the number of devices where pseudonyms were linked. With several
    collections, `collections` has the checks of each file, `inspection` is null, and n counts days.
    """

    format: Format = FORMAT
    version: str
    scenario: str
    users: Count
    reports: Count
    pools: tuple[str, ...]
    threshold: Real | None
    pool_sets: Count
    results: tuple[GuessRecord, ...]
    evaluation: tuple[EvaluationRecord, ...]
    estimated: tuple[str, ...]
    devices: Count | None
    preview: tuple[Row, ...]
    top: tuple[Row, ...]
    explanations: tuple[Explanation, ...]
    strongest: tuple[StrongestReports, ...]
    inspection: Inspection | None
    collections: tuple[CollectionReportsRecord, ...] = ()
    violations: tuple[str, ...]
    cautions: tuple[str, ...]
    passed: Flag


def attack_record(found: Inferred, scenario: Scenario) -> AttackRecord:
    """Return the record of an attack."""
    return AttackRecord(
        version=__version__,
        scenario=scenario.name,
        users=found.users,
        reports=found.reports,
        pools=tuple(found.pools),
        threshold=found.threshold,
        pool_sets=found.pool_sets,
        results=tuple(
            GuessRecord(
                adversary=row.adversary,
                n=row.n,
                reports=row.reports,
                confidence=row.confidence,
                baseline=row.baseline,
                confident_at_threshold={f"{level:g}": count for level, count in row.confident_at_threshold.items()},
                expected=tuple(row.expected),
                guesses=dict(row.guesses),
                no_guess=row.no_guess,
            )
            for row in found.results
        ),
        evaluation=tuple(EvaluationRecord(**vars(row)) for row in found.evaluation),
        estimated=tuple(found.estimated),
        devices=None if found.joined is None else found.users,
        preview=tuple(dict(row) for row in found.preview),
        top=tuple(dict(row) for row in found.top),
        explanations=tuple(found.explanations.users),
        strongest=tuple(
            StrongestReports(adversary=name, reports=tuple(reports))
            for name, reports in found.explanations.strongest.items()
        ),
        inspection=found.inspection,
        collections=tuple(CollectionReportsRecord(**vars(one)) for one in found.collections),
        violations=tuple(found.violations),
        cautions=tuple(found.cautions),
        passed=found.passed,
    )
