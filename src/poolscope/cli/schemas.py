"""The JSON Schema of every file that a user may write or read, by name."""

from __future__ import annotations

from typing import Any

from poolscope.cli.rerun import SCHEMAS
from poolscope.core.errors import InputError, did_you_mean
from poolscope.metrics.fitted import Fitted
from poolscope.metrics.models import json_schema
from poolscope.paper.runner import Reproduction
from poolscope.scenario.json_schema import scenario_schema
from poolscope.workflows.advise.collection_records import CollectionsAdvice
from poolscope.workflows.advise.records import Advice
from poolscope.workflows.attack.inspection import Inspection
from poolscope.workflows.attack.record import AttackRecord
from poolscope.workflows.audit.run_folder import Manifest, Summary
from poolscope.workflows.check.verdict import Verdict
from poolscope.workflows.compare import Comparison
from poolscope.workflows.rerun import Rerun
from poolscope.workflows.sweep import SweepOutput, SweepPlan

KINDS = {
    "manifest": Manifest,
    "summary": Summary,
    "comparison": Comparison,
    "advice": Advice,
    "collections-advice": CollectionsAdvice,
    "reproduction": Reproduction,
    "sweep": SweepPlan,
    "sweep-output": SweepOutput,
    "inspection": Inspection,
    "attack": AttackRecord,
    "verdict": Verdict,
    "fit": Fitted,
    "rerun": Rerun,
}


def schema_of(name: str, *, strict: bool = False) -> dict[str, Any]:
    """Return the JSON Schema of this name; with `strict`, result files have no fields of later versions."""
    if name not in SCHEMAS:
        raise InputError("must be the name of a schema", value=name, remedy=did_you_mean(name, SCHEMAS))
    return scenario_schema() if name == "scenario" else json_schema(KINDS[name], strict=strict)
