"""Targets in, decision out: the verb."""

from __future__ import annotations

import time
from collections.abc import Sequence
from os import PathLike
from pathlib import Path
from tempfile import gettempdir

import numpy as np

from poolscope.core.arguments import checked
from poolscope.core.executors import EngineLike, as_engine
from poolscope.core.files import check_new
from poolscope.core.progress import SILENT, Progress
from poolscope.metrics.provenance import combined, provenance_of
from poolscope.scenario.scenario import Scenario
from poolscope.workflows.advise.findings import candidates_of, timed
from poolscope.workflows.advise.plays import players_of, with_efforts
from poolscope.workflows.advise.question import question_of
from poolscope.workflows.advise.recommend import (
    alternatives_of,
    leaders_of,
    reason_of,
    recommendation_of,
    recommended_scenario,
)
from poolscope.workflows.advise.records import Advice, Finding
from poolscope.workflows.advise.refine import Refining, refining, verify
from poolscope.workflows.advise.text import assumptions_of, efforts_in_words, notes_of, relaxations_of, sentence_of
from poolscope.workflows.advise.variants import mitigations as side_by_side
from poolscope.workflows.advise.variants import sensitivity
from poolscope.workflows.audit.run_folder import input_files

#: Where the search of the first mechanism begins, if no error says where.
START = 2.0


@checked
def advise(
    scenario: Scenario,
    *,
    max_exposed: float,
    threshold: float | None = None,
    horizon: int | None = None,
    days: float | None = None,
    max_error: float | None = None,
    devices: int | None = None,
    mechanisms: Sequence[str] | None = None,
    adversary: str | None = None,
    epsilon: tuple[float, float] | None = None,
    users: int | None = None,
    tolerance: float | None = None,
    mitigations: bool = False,
    seed: int = 0,
    engine: EngineLike | None = None,
    out: str | PathLike[str] | None = None,
    progress: Progress = SILENT,
) -> Advice:
    """Advise without an HTML report: parameters are those of `poolscope.advise`."""
    engine, target = as_engine(engine), None if out is None else Path(out)
    started = time.perf_counter()
    if target is not None:
        check_new(target)
    question = question_of(
        scenario,
        max_exposed=max_exposed,
        threshold=threshold,
        horizon=horizon,
        days=days,
        max_error=max_error,
        devices=devices,
        mechanisms=mechanisms,
        adversary=adversary,
        epsilon=epsilon,
        users=users,
        tolerance=tolerance,
    )
    players = players_of(scenario, question, seed, engine, progress)
    # what the error refuses in closed form is neither timed nor played
    candidates = candidates_of(players, target.absolute().parent if target else Path(gettempdir()))
    players = with_efforts(players, users, [candidate.kind for candidate in candidates if not candidate.refused])
    candidates, question = timed(candidates, players), players.question
    findings: dict[str, Finding] = {}
    start = START
    for candidate in candidates:
        findings[candidate.kind] = finding = candidate.finding(start)
        start = finding.epsilon_max.value if finding.epsilon_max else start
    by_kind = {candidate.kind: candidate for candidate in candidates}
    horizon = min(players.horizon(finding.mechanism) for finding in findings.values() if finding.trials)
    refined: dict[str, Refining] = {}
    # a mechanism that leads by few users may not lead by many
    while (leaders := leaders_of(list(findings.values()), question, horizon))[0].mechanism not in refined:
        kind = leaders[0].mechanism
        refined[kind] = refining(by_kind[kind], leaders[0])
        findings[kind] = refined[kind].finding()
    own = by_kind[leaders[0].mechanism]
    verified, attempts = verify(refined[own.kind], players)
    findings[own.kind] = leaders[0] = refined[own.kind].finding()
    alternatives = tuple(alternatives_of(list(findings.values()), verified.choice, by_kind))
    reason = reason_of(leaders, list(findings.values()), alternatives, question, horizon)
    recommendation = recommendation_of(verified, attempts, leaders[0], own, reason)
    phrase = verified.game.adversaries[0].phrase
    done = Advice(
        scenario=scenario,
        question=question,
        seed=seed,
        horizon=horizon,
        findings=tuple(findings.values()),
        recommendation=recommendation,
        recommended=recommended_scenario(scenario, verified.choice, question),
        alternatives=alternatives,
        sentence=sentence_of(recommendation, question, scenario),
        relaxations=tuple(relaxations_of(list(findings.values()), question, scenario)),
        notes=(
            *efforts_in_words(players.efforts, question),
            *notes_of(list(findings.values()), recommendation, question, verified.limit),
        ),
        curve=tuple(verified.exposures.share(int(n)) for n in np.arange(verified.choice.cap + 1)),
        sensitivity=tuple(sensitivity(verified, players)),
        mitigations=tuple(side_by_side(verified.choice, by_kind)) if mitigations else (),
        assumptions=tuple(assumptions_of(question, scenario, verified.game)),
        adversary=phrase,
        seconds=time.perf_counter() - started,
        asked_users=users,
        provenance=provenance_of(
            seed=seed, users=question.users, inputs=input_files(scenario), outcomes=combined(players.digests)
        ),
    )
    if target is not None:
        done.write(target)
    return done
