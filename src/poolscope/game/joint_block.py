"""Play the game of several collections for a block of people: posteriors of the attribute, and their outcomes."""

from __future__ import annotations

from functools import partial

import numpy as np
import polars as pl
from numpy.typing import NDArray

from poolscope.core.arrays import Floats, Integers, Tick
from poolscope.core.executors import Local
from poolscope.game.collections import JointGame, Persons, draw_persons
from poolscope.game.columns import COLLECTION, LOG_ODDS, NON_PRIVATE, SAMPLED_CORRECT
from poolscope.game.game import popularity_draw_of
from poolscope.game.joint_evaluation import JointEvaluator, JointResults
from poolscope.game.outcomes import AttackResult, table
from poolscope.game.tuple_block import TupleEvaluator, draw_tuple_reports
from poolscope.inference.attack import attack_for
from poolscope.inference.non_private import non_private_posteriors


def play_joint_block(
    game: JointGame, users: range, seed: int, tick: Tick | None = None, engine: Local | None = None
) -> pl.DataFrame:
    """Return the outcomes of some people: by subset of the collections, then adversary, day and user."""
    engine, tick = engine or Local(threads=1), tick or (lambda _: None)
    persons = draw_persons(game, users, seed, engine)
    every = np.arange(game.horizon + 1)
    days = [one.reports_by(sent, every) for one, sent in zip(game.collections, persons.sent, strict=True)]
    numbers = np.arange(users.start, users.stop)
    estimate = popularity_draw_of(numbers, game.estimates)
    memoized = any(one.game.device.memoizes for one in game.collections)
    sampled = {one.name: memoized and one.knows_memoization for one in game.adversaries} | {NON_PRIVATE: False}
    results = JointResults(game, persons, sampled)
    parts, reports = len(game.collections), draw_tuple_reports(game, persons, engine)
    for number in np.unique(estimate) if game.adversaries else ():
        rows, found, left = np.flatnonzero(estimate == number), [], 0.0
        if reports is not None:
            for index, adversary in enumerate(game.adversaries):
                own = [one.game.adversaries[index].with_estimate(int(number)) for one in game.collections]
                TupleEvaluator(
                    game=game,
                    persons=persons,
                    results=results,
                    rows=rows,
                    adversary=adversary.name,
                    posteriors=[reports.evidence(own, rows)],
                    days=days,
                    correct=reports.correct(own, rows, game.links(adversary.name), game.belief(adversary.name)),
                ).run(engine, tick, 1 / len(game.adversaries))
            continue
        for c, collection in enumerate(game.collections):
            attack = attack_for(collection.game.device)
            own = [adversary.with_estimate(int(number)) for adversary in collection.game.adversaries]
            who = persons.sent[c][rows], persons.collection_keys[c][rows]
            done = partial(_scaled, tick, 1 / parts)
            found.append(attack.posteriors(*who, own, collection.game.observations, engine, done))
            left += (1.0 - attack.precomputed_share) / parts
        for index, adversary in enumerate(game.adversaries):
            JointEvaluator(
                game=game,
                persons=persons,
                results=results,
                rows=rows,
                adversary=adversary.name,
                posteriors=[one[index] for one in found],
                days=days,
            ).run(engine, tick, left / len(game.adversaries))
    if game.non_private:
        shown = [
            non_private_posteriors(one.game.universe, sent, one.game.reference.belief)
            for one, sent in zip(game.collections, persons.sent, strict=True)
        ]
        JointEvaluator(
            game=game,
            persons=persons,
            results=results,
            rows=np.arange(len(numbers)),
            adversary=NON_PRIVATE,
            posteriors=shown,
            days=days,
        ).run(engine, tick, 0.0 if game.adversaries else 1.0)
    return _outcome_table(game, persons, results, numbers, estimate)


def _scaled(tick: Tick, share: float, amount: float) -> None:
    tick(share * amount)


def _outcome_table(
    game: JointGame, persons: Persons, results: JointResults, numbers: Integers, estimate: Integers
) -> pl.DataFrame:
    subsets, frames = pl.Enum(list(game.subsets)), []
    redrawn = {
        adversary.name: any(one.game.adversaries[i].redraws for one in game.collections)
        for i, adversary in enumerate(game.adversaries)
    }
    for subset, used in game.subsets.items():
        gamma, delta = _mean_behavior(game, persons, used)
        attacked = []
        for adversary in game.pool_counts:
            own = results.arrays[subset, adversary]
            attacked.append(
                AttackResult(
                    adversary=adversary,
                    pool_names=game.values,
                    gamma=gamma,
                    delta=delta,
                    truth=persons.attribute,
                    guess=own["guess"],
                    confidence=own["confidence"],
                    posterior_true=own["posterior_true"],
                    exposed=results.exposed((subset, adversary)),
                    mcse=own["mcse"],
                    estimate=estimate if redrawn.get(adversary) else None,
                )
            )
        frame = table(pl.Series(numbers), game.observations, attacked)
        added = [LOG_ODDS, SAMPLED_CORRECT] if game.hidden else [LOG_ODDS]
        columns = [
            np.concatenate([results.arrays[subset, name][column].T.ravel() for name in game.pool_counts])
            for column in added
        ]
        frames.append(
            frame.with_columns(
                *(
                    pl.Series(name, own, nan_to_null=name == SAMPLED_CORRECT)
                    for name, own in zip(added, columns, strict=True)
                ),
                pl.repeat(subset, frame.height, dtype=subsets, eager=True).alias(COLLECTION),
            )
        )
    return pl.concat(frames)


def _mean_behavior(game: JointGame, persons: Persons, used: NDArray[np.bool_]) -> tuple[Floats, Floats]:
    """Return the mean relevant interest of some collections, and the mean polarization on the scale of the values."""
    chosen, count = np.flatnonzero(used).tolist(), len(game.values)
    gamma = np.mean([persons.gamma[c] for c in chosen], axis=0)
    sizes = [game.collections[c].game.universe.k for c in chosen]
    rescaled = [(k * persons.delta[c] - 1) / (k - 1) for k, c in zip(sizes, chosen, strict=True)]
    return gamma, 1 / count + (1 - 1 / count) * np.mean(rescaled, axis=0)
