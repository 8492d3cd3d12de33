"""Open the reports of a scenario wherever they are; every workflow accepts what this yields."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from poolscope.core.tables import Data, Source, SourceOptions, opened
from poolscope.core.tables.sources import DEFAULT
from poolscope.reports.files import report_names
from poolscope.scenario.build import build_mechanism
from poolscope.scenario.scenario import Scenario


@contextmanager
def open_reports(
    reports: Data, scenario: Scenario, options: SourceOptions = DEFAULT, *, beside: Path | None = None
) -> Iterator[Source]:
    """Open reports once for several workflows; temporary files, in a folder `beside`, exist as long."""
    names = report_names(build_mechanism(scenario, scenario.universe()).report_columns)
    with opened(reports, names, options, beside=beside) as source:
        yield source
