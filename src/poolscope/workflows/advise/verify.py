"""A recommendation as held-out users play it: they had no part in choosing it."""

from __future__ import annotations

from dataclasses import dataclass

from poolscope.game.blocks import playing
from poolscope.game.game import Game
from poolscope.game.outcomes import EXPOSED_AT_THRESHOLD
from poolscope.metrics.intervals import Estimate
from poolscope.metrics.pools import PoolRecord, pool_records, pool_sums
from poolscope.metrics.precision import select
from poolscope.metrics.records import Record, summarise
from poolscope.population.behavior import NONE
from poolscope.scenario.build import build_game
from poolscope.scenario.scenario import Scenario, changed
from poolscope.workflows.advise.advice import Attempt
from poolscope.workflows.advise.error import rounded_down
from poolscope.workflows.advise.findings import searching
from poolscope.workflows.advise.plays import Exposures, Players, exposures_of
from poolscope.workflows.advise.question import Question
from poolscope.workflows.advise.refine import JUMP, Choice, Refining, Setting
from poolscope.workflows.advise.verdicts import MIN_AIM, NO, YES, aim_of, decidable, verdict
from poolscope.workflows.compare import variants

#: How often a setting that held-out users do not confirm is refined, with what they say, and verified by others.
ATTEMPTS = 4

#: The next setting, as a part of the last, after one that held-out users contradict and the search would choose again.
BACK = 0.93


@dataclass(frozen=True, kw_only=True, eq=False)
class Verified:
    """A choice as held-out users play it.

    Parameters
    ----------
    choice : what they play; limit : what keeps it from being larger, as `refine.Setting` has it.
    game, seed, users : who plays what.
    exposures : theirs up to the cap; record : an audit's record at the cap; by_pool : of the users of each preferred
        pool.
    """

    choice: Choice
    limit: str | None
    game: Game
    seed: int
    users: range
    exposures: Exposures
    record: Record
    by_pool: tuple[PoolRecord, ...]

    @property
    def exposed(self) -> Estimate:
        """Share of them exposed by the cap."""
        return self.exposures.share(self.choice.cap)


def verify(refining: Refining, players: Players) -> tuple[Verified, tuple[Attempt, ...]]:
    """Refine a setting until held-out users confirm that it exposes most of the target, and no more than it.

    Every attempt has users and, where a popularity is estimated, an estimate of its own. Users who do not confirm a
    setting correct the level of exposure that the next one is chosen by; recorded ones verify again.
    """
    question = players.question
    attempts: list[Attempt] = []
    hits = expected = 0.0
    effect, contradicted = refining.design_effect, None
    while True:
        searched = refining.users + sum(attempt.users for attempt in attempts)
        aim = aim_of(question.exposed, searched / effect, refining.users / effect)
        prior = aim * refining.users
        level = (prior + hits) / (prior + expected)
        setting = refining.at(aim / level, question.exposed / level)
        if setting.choice == contradicted:
            setting = setting._replace(choice=step_back(setting.choice, question), limit=JUMP)
        found = play_choice(setting, players, players.seed + 1 + len(attempts))
        share = found.exposed
        epsilon, cap, users = setting.choice.epsilon, setting.choice.cap, len(found.users)
        kept = verdict(share, question.exposed)
        attempts.append(Attempt(epsilon=epsilon, cap=cap, users=users, exposed=share, kept=kept))
        last = len(attempts) == ATTEMPTS or (cap == 1 and question.error is not None)
        if last or accepted(found, players):
            return found, tuple(attempts)
        if kept == NO or (share.value > question.exposed and not retriable(found, players)):
            contradicted = setting.choice
        hits += share.value * users
        expected += setting.exposed * users
        effect = max(effect, found.exposures.design_effect(cap))


def accepted(found: Verified, players: Players) -> bool:
    """Say whether a verified choice needs no further attempt.

    It exposes no more than the target, as held-out users confirm, and not much less, unless something keeps it from
    being larger. Where more attempts would not tell, or the cap is what was asked for, an undecided one is accepted.
    """
    question, share = players.question, found.exposed
    if share.value > question.exposed:
        return False
    asked = question.error is not None and found.choice.cap == question.reports
    if asked or not retriable(found, players):
        return True
    used = found.limit is not None or share.value >= MIN_AIM * question.exposed
    return used and verdict(share, question.exposed) == YES


def retriable(found: Verified, players: Players) -> bool:
    """Say whether other users would tell more: there are others, enough of them, and they play quickly."""
    independent = len(found.users) / found.exposures.design_effect(found.choice.cap)
    slow = found.game.recorded is not None or found.choice.kind in players.efforts
    return not slow and decidable(players.question.exposed, independent)


def step_back(choice: Choice, question: Question) -> Choice:
    """Take a smaller cap where the error holds epsilon, else a smaller epsilon."""
    if question.error is not None:
        return choice._replace(cap=max(1, int(BACK * choice.cap)))
    return choice._replace(epsilon=rounded_down(BACK * choice.epsilon))


def play_choice(setting: Setting, players: Players, seed: int) -> Verified:
    """Play a choice with its cap, as it would be deployed, until the cap is full."""
    # where a share of the events is reported the cap is filled later, at about the event that it stands for
    choice, question = setting.choice, players.question
    players.progress.stage(f"Verifying {choice.kind} at epsilon {choice.epsilon:g} with held-out users")
    (variant,) = variants(players.scenario, [choice.kind], [choice.epsilon])
    counts = players.looks(choice.kind, choice.cap, variant.keeps_answers)
    changes = {"devices.cap": capped(choice, variant), "attack.observations": counts}
    limited = changed(variant, changes, name=variant.name)
    game = build_game(limited, seed, players.engine.map)
    there, most = playing(game, None), players.most_users(choice.kind)
    users = range(most) if there is None else range(searching(there, most), there)
    outcomes = players.outcomes(game, users, seed)
    *_, record = summarise(outcomes, game, seed, question.confidence)
    adversary = game.adversaries[0]
    at_cap = pool_sums(select(outcomes, adversary.name, game.horizon), game.horizon, EXPOSED_AT_THRESHOLD)
    names = (*adversary.universe.pool_names, *([NONE] if game.none else []))
    return Verified(
        choice=choice,
        limit=setting.limit,
        game=game,
        seed=seed,
        users=users,
        exposures=exposures_of(outcomes, adversary, game),
        record=record,
        by_pool=tuple(pool_records([at_cap], adversary.name, game.horizon, names, question.confidence)),
    )


def capped(choice: Choice, scenario: Scenario) -> int:
    """The cap in reports: of the events up to it, those that are reported."""
    return max(1, round(choice.cap * scenario.devices.sample))
