"""The public archive "Tweets of Congress": a JSON file for each day, a list of posts.

A post has ``screen_name``, ``user_id``, ``text``, ``time`` and ``link``. The files of the repository
alexlitel/congresstweets are named by their dates.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from poolscope.core.errors import InputError

USER, TEXT = "screen_name", "text"
"""The columns that say who, and what."""

ENDING = ".json"
"""Of a day's file."""

_QUOTED = re.compile(r"(?:^|\s)QT @\w")
_TWITTER = re.compile(r"https?://(?:[\w-]+\.)*(?:twitter\.com|twimg\.com|t\.co)(?![\w.-])\S*", re.IGNORECASE)


def is_archive(path: Path) -> bool:
    """Whether a file is a day of the archive."""
    return path.suffix.lower() == ENDING


def own_words(text: str) -> str:
    """What the account itself wrote in a text of the archive.

    The archive writes a retweet as ``RT @name ...`` and puts ``QT @name ...`` with the quoted text behind a quote;
    links to Twitter itself stand for pictures and quoted tweets. None of these is the account's own pick.
    """
    if text.startswith("RT @"):
        return ""
    return _TWITTER.sub(" ", _QUOTED.split(text, maxsplit=1)[0])


def time_of(post: Mapping[str, Any], number: int) -> datetime:
    """When the post with this number was made; posts without a time come first, in the order that they have."""
    text = post.get("time")
    if text is None:
        return datetime.min.replace(tzinfo=UTC)
    try:
        time = datetime.fromisoformat(text)
    except (TypeError, ValueError):
        raise InputError("time must be a date and time", value=text, place=f"row {number}") from None
    return time if time.tzinfo else time.replace(tzinfo=UTC)
