"""Letters that a terminal or a file may not have: what was worked out is told all the same."""

from __future__ import annotations

import codecs
import io
import sys

#: How a sign is written where there is no such letter.
PLAIN = {"–": "-", "−": "-", "∞": "inf", "≥": ">=", "≤": "<=", "ε": "eps", "γ": "gamma", "δ": "delta", "★": "*"}


def enable() -> None:
    """From now on, what the output's encoding lacks is written plainly, or as a question mark."""
    codecs.register_error("plainly", _plainly)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="plainly")


def _plainly(error: UnicodeError) -> tuple[str, int]:
    assert isinstance(error, UnicodeEncodeError)
    lacking = error.object[error.start : error.end]
    return "".join(PLAIN.get(sign, "?") for sign in lacking), error.end
