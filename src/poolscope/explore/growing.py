"""Answer a setting from few users at once, then from more, as long as that does not take long."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence

from poolscope.core.executors import Local
from poolscope.explore.answers import Answer, Games, Sample
from poolscope.explore.collections import JointAnswer, JointSample
from poolscope.scenario.scenario import Scenario

PATIENCE = 30.0
"""Largest expected time of a further sample, in seconds."""

AnyAnswer = Answer | JointAnswer
AnySample = Sample | JointSample


def kinds_of(scenario: Scenario) -> list[str]:
    """Return the name of the mechanism of each collection."""
    return [part.mechanism.kind for part in scenario.parts]


def first_sample(scenario: Scenario, n: int, seed: int, games: Games, engine: Local) -> tuple[AnySample, list[str]]:
    """Return the sample of a game without pending adversaries, and the names of these."""
    if scenario.collections:
        joint, waiting = games.joint_without_pending_estimates(scenario, seed)
        return JointSample(joint, n, seed, engine, kinds_of(scenario)), waiting
    game, waiting = games.without_pending_estimates(scenario, seed)
    return Sample(game, n, seed, engine), waiting


def whole_sample(scenario: Scenario, n: int, seed: int, games: Games, engine: Local) -> AnySample:
    """Return the sample of a game with all its adversaries."""
    if scenario.collections:
        return JointSample(games.joint_complete(scenario, seed, engine), n, seed, engine, kinds_of(scenario))
    return Sample(games.complete(scenario, seed, engine), n, seed, engine)


def answers(scenario: Scenario, n: int, seed: int, games: Games, engine: Local) -> Iterator[AnyAnswer]:
    """Yield the answer from few users without pending adversaries, then from more users."""
    sample, waiting = first_sample(scenario, n, seed, games, engine)
    if waiting:
        sample.grow(sample.sizes[0])
        yield sample.answer(waiting)
        sample = whole_sample(scenario, n, seed, games, engine)
    yield from refined(sample)


def refined(sample: AnySample) -> Iterator[AnyAnswer]:
    """Yield answers of growing samples, as long as each takes at most `PATIENCE`."""
    pace, before = 0.0, -1
    for users in sample.sizes:
        if pace * (users - sample.users) > PATIENCE:
            return
        started, had = time.perf_counter(), sample.users
        sample.grow(users)
        if sample.users == before:
            return
        pace = (time.perf_counter() - started) / max(1, sample.users - had)
        before = sample.users
        yield sample.answer()


def side_by_side(
    settings: Sequence[tuple[Scenario, int, int]], games: Games, engine: Local
) -> Iterator[tuple[int, AnyAnswer]]:
    """Yield the index and answer of each setting (scenario, n, seed), then again from more users."""
    samples = [whole_sample(scenario, n, seed, games, engine) for scenario, n, seed in settings]
    for several in zip(*(refined(sample) for sample in samples), strict=False):
        yield from enumerate(several)
