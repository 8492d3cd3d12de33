"""Summarize what is special to a run with one report for all collections: values of ε, and the sampled attribute."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from poolscope.game.collections import JOINT, JointGame
from poolscope.game.columns import SAMPLED_CORRECT
from poolscope.game.outcome_files import OutcomeFiles
from poolscope.metrics.bounds import cumulative_epsilon, devices_in_words
from poolscope.metrics.collections import CollectionsSummary, SampledAttribute
from poolscope.metrics.multidimensional import sampled_attribute, tuple_epsilon, tuple_epsilon_text
from poolscope.metrics.text import users_in_words


def with_tuples(about: CollectionsSummary, game: JointGame, outcomes: OutcomeFiles) -> CollectionsSummary:
    """Return the summary with the values of ε of whole tuples; itself where each collection sends its own reports."""
    if game.tuples is None or game.policy is None:
        return about
    spent = cumulative_epsilon(game.tuples.epsilon, game.policy)
    return replace(
        about,
        epsilon_day=spent.day,
        epsilon_year=spent.year,
        multidimensional=tuple_epsilon(game.tuples),
        sampled_attributes=tuple(_sampled(game, replace(outcomes, collection=JOINT))),
    )


def _sampled(game: JointGame, joint: OutcomeFiles) -> Iterator[SampledAttribute]:
    """Yield how often each adversary guesses the sampled attribute, where reports hide it."""
    if game.hidden is None:
        return
    columns = joint.with_estimate_column((SAMPLED_CORRECT,))
    for adversary in game.pool_counts:
        for n in game.observations:
            found = sampled_attribute(joint.of((adversary, n), columns), adversary, n, game.hidden.d)
            if found:
                yield found


def tuples_in_words(kinds: Sequence[str], game: JointGame) -> Iterator[str]:
    """Yield what the tuples are, given the names of the randomizers, and who plays."""
    found, policy = tuple_epsilon(game.tuples), game.policy
    assert found is not None
    assert policy is not None
    limits = devices_in_words(replace(game.collections[0].game, policy=policy))
    yield "; ".join([f"{found.kind}: {tuple_epsilon_text(found)}", *limits])
    named = (f"{own.name} ({kind})" for own, kind in zip(game.collections, kinds, strict=True))
    yield f"one report has a value of each collection: {', '.join(named)}"
    yield users_in_words(game.collections[0].game)
