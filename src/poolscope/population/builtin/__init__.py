"""Built-in universes by name: emojis and news outlets, and how to extract both from text and links."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from poolscope.core.errors import InputError, did_you_mean

if TYPE_CHECKING:
    from poolscope.population.universe import Universe


def _emoji_11() -> Universe:
    from poolscope.population.builtin.emojis import emoji_11

    return emoji_11()


def _news_2021() -> Universe:
    from poolscope.population.builtin.news import news_2021

    return news_2021()


UNIVERSES: dict[str, Callable[[], Universe]] = {"emoji-11": _emoji_11, "news-2021": _news_2021}
"""Name -> constructor of each built-in universe."""


def builtin_universe(name: str) -> Universe:
    """Return the built-in universe of this name."""
    if name not in UNIVERSES:
        raise InputError("unknown universe", value=name, remedy=did_you_mean(name, UNIVERSES))
    return UNIVERSES[name]()
