"""Ways to break what an engine runs; in a module of their own, as they travel to workers by name."""

import errno

from poolscope.game import blocks as parts

#: As they were before: a worker that is sent one of them by name would find what it was replaced by.
ORIGINALS = {"play_block": parts.play_block, "write_bytes": parts.write_bytes}


def failing(game, users, *rest):
    if users.start >= 60:
        raise ZeroDivisionError("nobody\ncould know")
    return ORIGINALS["play_block"](game, users, *rest)


def full(path, data):
    # more blocks than are under way at once come before: one of them is finished when this one is asked for
    if path.name > "part-000004":
        raise OSError(errno.ENOSPC, "No space left on device")
    ORIGINALS["write_bytes"](path, data)


def write_elsewhere(path, data):
    """A disk of the worker's own."""


def sabotage(name, function):
    setattr(parts, name, function)


def repair():
    for name, function in ORIGINALS.items():
        setattr(parts, name, function)
