"""Finish a command: its text or its JSON, its gates, and the exit code."""

from __future__ import annotations

import sys
import xml.etree.ElementTree as ET
from collections.abc import Callable, Mapping, Sequence
from contextlib import redirect_stdout
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import typer

from poolscope.cli.app import elapsed
from poolscope.cli.exit import print_error
from poolscope.cli.json_output import json_text
from poolscope.core.errors import InputError, PoolscopeError, visible
from poolscope.core.tables import check_output
from poolscope.core.tables.atomic import write_text
from poolscope.game.columns import NON_PRIVATE
from poolscope.metrics.gates import POLICIES, Gate, GateResult, parse_gate
from poolscope.scenario.build import parameters_of
from poolscope.scenario.custom import is_custom
from poolscope.scenario.scenario import Scenario

#: Fields that a run has with a threshold only, and what asks for one.
AT_THRESHOLD = dict.fromkeys(
    ("threshold", "confident_at_threshold", "precision_at_threshold", "exposed"),
    "set a threshold with `threshold`, or compare exposed_90",
)


@dataclass(frozen=True, kw_only=True)
class Gates:
    """What a command has to pass.

    Parameters
    ----------
    command, name : of the test suite.
    gates : the conditions; on_uncertain : "fail" or "pass".
    junit : the file that gets the verdicts; as_json : whether the result is printed as JSON.
    """

    command: str
    name: str
    gates: Sequence[Gate] = ()
    on_uncertain: str = "fail"
    junit: Path | None = None
    as_json: bool = False

    @classmethod
    def parse(
        cls,
        command: str,
        name: str,
        fail_if: Sequence[str] | None,
        on_uncertain: str,
        junit: Path | None,
        as_json: bool,
        *,
        alone: bool = False,
    ) -> Gates:
        """Read the options; `alone` says that the command has a verdict without any condition."""
        if on_uncertain not in POLICIES:
            raise InputError("must be fail or pass", value=on_uncertain, place="--on-uncertain")
        if junit is not None:
            if not fail_if and not alone:
                raise InputError("must have `fail_if`, the conditions that it reports", place="--junit")
            # a report of an earlier run is replaced, nothing else
            earlier = junit.is_file() and b"<testsuite" in junit.read_bytes()[:1000]
            check_output(junit, overwrite=earlier, endings=(".xml",), option="junit")
        gates = tuple(map(parse_gate, fail_if or ()))
        return cls(command=command, name=name, gates=gates, on_uncertain=on_uncertain, junit=junit, as_json=as_json)

    def check(
        self, kind: type, known: Mapping[str, Sequence[Any]] | None = None, threshold: float | None = None
    ) -> None:
        """Refuse conditions on what the result will not have, before anything is played."""
        for gate in self.gates:
            gate.check(kind, known, AT_THRESHOLD if threshold is None else {})

    def finish(self, result: Any, show: Callable[[], None], *own: GateResult) -> None:
        """Print the result, judge it, write the report of the gates, and exit with code 1 if one fails.

        Parameters
        ----------
        show : prints the result as text.
        own : verdicts that the command has without a condition.
        """
        print_result(result, show, as_json=self.as_json)
        found = result.as_json() if self.gates else {}
        judged = [gate.judge(found, self.on_uncertain) for gate in self.gates]
        for one in judged:
            if one.passed:
                typer.echo(visible(one.text), err=self.as_json)
            else:
                print_error(PoolscopeError(one.text))
        every = [*own, *judged]
        if self.junit is not None:
            write_text(self.junit, junit_text(f"poolscope {self.command} {self.name}", every, elapsed()))
        if not all(one.passed for one in every):
            raise typer.Exit(1)


def values_of_audit(
    scenario: Scenario, observations: Sequence[int] | None, threshold: float | None
) -> tuple[dict[str, Sequence[Any]], float | None]:
    """Return the adversaries and observation counts that the records of an audit will have, and its threshold."""
    attack = scenario.attack
    counts = observations or (attack.observations if attack else ())
    names = [adversary.name for adversary in scenario.adversaries]
    names += [NON_PRIVATE] if attack is None or attack.non_private else []
    threshold = attack.threshold if threshold is None and attack else threshold
    return {"adversary": names, "n": sorted(counts)}, threshold


def values_of_comparison(
    scenario: Scenario,
    observations: Sequence[int] | None,
    threshold: float | None,
    mechanisms: Sequence[str],
    epsilons: Sequence[float],
) -> tuple[dict[str, Sequence[Any]], float | None]:
    """Return the same for the records of a comparison, which are of the largest count."""
    known, threshold = values_of_audit(scenario, observations, threshold)
    known["adversary"] = [name for name in known["adversary"] if name != NON_PRIVATE]
    known["n"] = known["n"][-1:]
    if not any(map(is_custom, mechanisms)):
        known["mechanism"] = mechanisms
        if all("epsilon" in parameters_of(kind) for kind in mechanisms):
            known["epsilon"] = epsilons
    return known, threshold


def print_result(result: Any, show: Callable[[], None], *, as_json: bool) -> None:
    """Print a result as text; or as JSON to the standard output, and the text to the error stream."""
    if not as_json:
        show()
        return
    with redirect_stdout(sys.stderr):
        show()
    typer.echo(json_text(result), nl=False)


def junit_text(suite: str, results: Sequence[GateResult], seconds: float) -> str:
    """Return the verdicts as JUnit XML: one test case for each."""
    failed = sum(not one.passed for one in results)
    counts = {"tests": str(len(results)), "failures": str(failed), "errors": "0", "time": f"{seconds:.3f}"}
    suites = ET.Element("testsuites", counts)
    stamp = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S")
    head = {"name": _xml(suite), **counts, "skipped": "0", "timestamp": stamp}
    cases = ET.SubElement(suites, "testsuite", head)
    for one in results:
        named = {"classname": _xml(suite.replace(" ", ".")), "name": _xml(one.condition), "time": "0.000"}
        case = ET.SubElement(cases, "testcase", named)
        if one.passed:
            ET.SubElement(case, "system-out").text = _xml(one.reason)
        else:
            failure = ET.SubElement(case, "failure", {"message": _xml(one.reason), "type": "gate"})
            failure.text = _xml(one.text)
    ET.indent(suites)
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{ET.tostring(suites, encoding="unicode")}\n'


def _xml(text: str) -> str:
    """Return a text without the control characters that XML lacks."""
    return visible(text)
