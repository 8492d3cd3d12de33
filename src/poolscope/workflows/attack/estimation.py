"""Estimate the popularity from the attacked reports themselves, chunk by chunk."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import Any

from poolscope.core.arrays import Floats, Tick
from poolscope.core.executors import Engine, Local
from poolscope.reports.frequencies import FrequencyCounter
from poolscope.scenario.scenario import Scenario
from poolscope.workflows.attack.partitioning import Chunk, ReportReader


def estimation_methods(scenario: Scenario) -> tuple[str | None, ...]:
    """Return the methods by which adversaries estimate the popularity from the attacked reports."""
    learning = (
        entry for entry in scenario.adversaries if entry.popularity == "estimated" and entry.estimate_from is None
    )
    return tuple(dict.fromkeys(entry.method for entry in learning))


def estimated_popularity(reading: ReportReader, chunks: list[Chunk], engine: Engine) -> dict[str | None, Floats]:
    """Estimate the popularity from the reports, by each method."""
    counting = {method: FrequencyCounter(reading.mechanism, engine, method) for method in reading.methods}
    if counting:
        for found in run_tasks(engine, count_chunk, reading, chunks):
            for one, (counted, reports) in zip(counting.values(), found, strict=True):
                one.join(counted, reports)
    return {method: one.estimate().popularity for method, one in counting.items()}


def count_chunk(reading: ReportReader, chunk: Chunk, engine: Local, tick: Tick) -> list[tuple[Any, int]]:
    """Count the reports of a chunk for each method of estimation (a task)."""
    reports, out = reading.block(chunk)[1], list[tuple[Any, int]]()
    for method in reading.methods:
        counting = FrequencyCounter(reading.mechanism, engine, method)
        counting.add(reports)
        out.append((counting.counted, counting.reports))
    return out


def run_tasks(
    engine: Engine, function: Callable[..., Any], shared: Any, items: Iterable[Any], tick: Tick | None = None
) -> Iterator[Any]:
    """Run the tasks of a round, the first one alone: it compiles for all."""
    waiting = iter(items)
    yield from engine.tasks(function, shared, islice(waiting, 1), tick)
    yield from engine.tasks(function, shared, waiting, tick)
