"""The files that a scenario is made of: its own, and those that it names."""

from __future__ import annotations

from os import PathLike
from pathlib import Path

from poolscope.scenario.parameters import FILES
from poolscope.scenario.scenario import Scenario


def named_files(scenario: Scenario) -> list[str]:
    """The files that a scenario names, as it does."""
    named = [scenario.universe_table.objects, scenario.users.traces if scenario.users else None]
    named += [str(value) for name, value in scenario.mechanism.parameters.items() if name in FILES]
    named += [adversary.file for adversary in scenario.adversaries]
    return list(dict.fromkeys(name for name in named if name))


def input_paths(scenario: Scenario, *others: str | PathLike[str] | None) -> list[Path]:
    """All files that a command reads: of the scenario, and others as far as they are given."""
    own = [] if scenario.file == scenario.name else [Path(scenario.file)]
    named = [scenario.resolve(name) for name in named_files(scenario)]
    return [*own, *named, *(Path(other) for other in others if other is not None)]
