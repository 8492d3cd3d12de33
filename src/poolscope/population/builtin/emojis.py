"""Emojis: the universe ``emoji-11`` with its pools of skin tones, and the extraction of emojis from text.

Both use the data of the ``emoji`` package, which lists every emoji with its version and its status: *fully
qualified* is the form that keyboards produce; *minimally qualified* and *unqualified* forms lack some of the variation
selectors (U+FE0F) that request emoji presentation; *components* are the tones and hair styles alone.
"""

from __future__ import annotations

import re
from functools import cache
from typing import Any

from emoji import EMOJI_DATA, STATUS

from poolscope.core.errors import PoolscopeError
from poolscope.population.universe import Universe

VERSION = 11.0
"""Latest version of Unicode Emoji whose emojis are objects."""

TONES = {
    "light": "\U0001f3fb",
    "medium-light": "\U0001f3fc",
    "medium": "\U0001f3fd",
    "medium-dark": "\U0001f3fe",
    "dark": "\U0001f3ff",
}
"""Pool -> the modifier that its emojis have; a sixth pool, ``default``, has the same emojis without one."""

SIZE, POOL_SIZE = 2780, 228
"""Objects of the universe and of each of its six pools."""

_PICTURE, _LETTER, _KEYCAP = "\ufe0f", "\ufe0e", "\u20e3"


@cache
def emoji_11() -> Universe:
    """Return all 2,780 fully qualified emojis of Unicode Emoji 11.0 in six pools of 228 and 1,412 neutral ones.

    The order of the objects is part of the format, as hash tables have a column for each: first the pools default,
    light, medium-light, medium, medium-dark and dark, then the neutral emojis. Within a pool, emojis are ordered by
    the code points of their default form, so that the pools list the same emojis in the same order; neutral ones are
    ordered by their own code points. A release of the ``emoji`` package can add newer emojis, but not change this.
    """
    emojis = [e for e, entry in EMOJI_DATA.items() if _is_full(entry) and entry["E"] <= VERSION]
    plain = {_bare(e): e for e in emojis if not any(tone in e for tone in TONES.values())}
    pools: dict[str, list[str]] = {"default": []}
    for name, tone in TONES.items():
        toned = {plain[_bare(e.replace(tone, ""))]: e for e in emojis if tone in e}
        pools["default"] = sorted(toned)
        pools[name] = [toned[base] for base in pools["default"]]
    neutral = sorted(set(plain.values()) - set(pools["default"]))
    sizes = {len(members) for members in pools.values()}
    objects = [e for members in pools.values() for e in members] + neutral
    if sizes != {POOL_SIZE} or len(objects) != SIZE:
        # otherwise the columns of hash tables would silently belong to other emojis
        raise PoolscopeError(
            f"the emoji package must list {SIZE} emojis up to Unicode Emoji {VERSION:g}, {POOL_SIZE} to a tone, "
            f"has {len(objects)} and {sorted(sizes)}"
        )
    labels = [name for name, members in pools.items() for _ in members] + [""] * len(neutral)
    return Universe.named(objects, labels)


def emojis_in(text: str) -> list[str]:
    """Return the emojis of a text in order, in their fully qualified form.

    The longest emoji at each position is matched. A sequence joined by U+200D, or an emoji with its tone, is one emoji
    if Unicode recommends it, and is split into its parts otherwise. Variation selectors are ignored, even a misplaced
    one between an emoji and its tone; but a character followed by U+FE0E requests text presentation and is skipped.
    Emojis newer than the universe are returned too, as are tones without a base.
    """
    return [qualified(match) for match in _pattern().findall(text)]


def qualified(emoji: str) -> str:
    """Return the fully qualified form of an emoji; other text is returned unchanged."""
    return _full_forms().get(_bare(emoji), emoji)


def _is_full(entry: dict[str, Any]) -> bool:
    return bool(entry["status"] == STATUS["fully_qualified"])


def _bare(emoji: str) -> str:
    return emoji.replace(_PICTURE, "")


@cache
def _full_forms() -> dict[str, str]:
    """Return the fully qualified form of every emoji and component, by its code points without variation selectors."""
    forms = {_bare(e): e for e in EMOJI_DATA}
    return forms | {_bare(e): e for e, entry in EMOJI_DATA.items() if _is_full(entry)}


@cache
def _pattern() -> re.Pattern[str]:
    """Return a pattern of the longest emoji at a position.

    The tokenizer of the ``emoji`` package does not backtrack: where text begins a longer emoji without finishing it,
    the shorter one at its beginning is lost (``test_an_unfinished_sequence_keeps_its_beginning``).
    """
    tree: dict[str, Any] = {}
    for emoji in _full_forms():
        node = tree
        for character in emoji:
            node = node.setdefault(character, {})
        node[""] = {}
    # a lookahead on the next character excludes most of a text and is a hundred times faster
    short = "".join(character for character in tree if "\x7f" < character <= "\uffff")
    may_begin = f"(?=[{short}\U00010000-\U0010ffff]|.{_PICTURE}?{_KEYCAP})"
    return re.compile(f"{may_begin}(?:{_alternatives(tree)})(?!{_LETTER})")


def _alternatives(tree: dict[str, Any]) -> str:
    """Return the alternation of all branches of a tree; branches begin differently, so that order is irrelevant."""
    leaves = [character for character, node in tree.items() if list(node) == [""]]
    branches = [f"[{''.join(map(re.escape, leaves))}]{_PICTURE}?"] if leaves else []
    for character, node in tree.items():
        if character and character not in leaves:
            rest = f"(?:{_alternatives(node)})"
            branches.append(f"{re.escape(character)}{_PICTURE}?{rest}{'?' if '' in node else ''}")
    return "|".join(branches)
