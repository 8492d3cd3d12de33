"""How many users a trial may have where one takes long: devices that keep answers, before whoever knows of it.

A user of such a device takes from a hundredth of a second to many seconds, by mechanism and number of reports. So a few
are played first and timed, and trials get as many as the time for an advice allows. That is a fact of the machine:
whoever wants the same advice everywhere asks for `users`, who are then played however long they take.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace

from poolscope.core.executors import Local
from poolscope.game.game import play_block
from poolscope.workflows.advise.plays import BEYOND, FEW_LOOKS, Effort, Players, is_grouped, looks
from poolscope.workflows.advise.question import KEEPING

#: Core seconds that an advice may take, about; and how often the users of a trial are played for a mechanism, in few
#: trials and a verification.
SECONDS, PLAYS = 200.0, 6

#: Users of a trial, one of these.
USERS = (12, 25, 50, 100, KEEPING)

#: Users who are timed, or one if that takes longer than so many seconds, and the epsilon at which they are.
TIMED, ENOUGH, EPSILON = 3, 1.0, 2.0

#: How much longer it takes to play further than asked for, see `plays.BEYOND`.
FURTHER = 4.0


def with_efforts(players: Players, users: int | None, kinds: Sequence[str]) -> Players:
    """The players, with as many users for each mechanism as there is time for; those that are asked for, if any are.

    Their question then says the most that play a trial of any mechanism. `kinds` are the mechanisms that are played.
    """
    question = players.question
    slow = [kind for kind in kinds if is_grouped(players, kind)]
    efforts = {}
    for kind in slow:
        # whoever asks for users has them at once
        seconds = _seconds(players, kind) if users is None else None
        efforts[kind] = _effort(seconds, SECONDS / len(slow) / PLAYS) if seconds else Effort(users=question.users)
    timed = replace(players, efforts=efforts)
    most = max(timed.most_users(kind) for kind in kinds)
    return replace(timed, question=replace(question, users=most))


def _effort(seconds: float, share: float) -> Effort:
    """Of a user who takes so many core seconds, where there is time for so many of each play."""
    if seconds * FURTHER * KEEPING <= share:
        return Effort(users=KEEPING, beyond=BEYOND, seconds=seconds)
    most = max((count for count in USERS if count * seconds <= share), default=USERS[0])
    return Effort(users=most, seconds=seconds)


def _seconds(players: Players, kind: str) -> float:
    """Core seconds that a user of a mechanism takes, played no further than asked for."""
    question, alone = players.question, Local(threads=1)
    players.progress.stage(f"Timing {kind}, whose devices keep answers")
    game = players.game(kind, min(max(EPSILON, question.lowest), question.highest))
    # few reports compile what many need
    play_block(replace(game, observations=[min(3, question.reports)]), range(1), players.seed, engine=alone)
    timed, seconds = replace(game, observations=looks(question.reports, question.reports, True, FEW_LOOKS)), 0.0
    for user in range(TIMED):
        started = time.process_time()
        play_block(timed, range(user, user + 1), players.seed, engine=alone)
        seconds += time.process_time() - started
        if seconds > ENOUGH:
            break
    return seconds / (user + 1)
