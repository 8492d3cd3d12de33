"""Exceptions, and how file and place are added to an error.

An :class:`InputError` is raised where a rule is broken, with the rule and the value. Callers that know the file or the
key add it with :func:`located`. The result is one line::

    scenario.toml: mechanism.epsilon: must be positive, got -1; larger is less private
"""

import copy
import difflib
import re
import unicodedata
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from os import PathLike
from typing import Self

MAX_VALUE_LENGTH = 80
"""Maximum number of characters of a value in a message."""

MAX_PART_LENGTH = 300
"""Maximum number of characters of any other part, as keys and rules may come from files and other libraries."""

_NOTHING = object()

#: Unicode categories that control a terminal or are invisible: controls, formats, surrogates, line separators.
_UNSAFE = ("Cc", "Cf", "Cs", "Zl", "Zp")

#: Joiners, and the tags of emojis.
_JOINERS = ("\u200c", "\u200d", *map(chr, range(0xE0020, 0xE0080)))


class PoolscopeError(Exception):
    """Base class of all errors that this package raises deliberately.

    Examples
    --------
    >>> try:
    ...     ps.load_scenario("no-such-scenario")
    ... except ps.PoolscopeError as error:
    ...     print(type(error).__name__)
    ...
    InputError
    """


class InputError(PoolscopeError):
    """Invalid input, described in one line; commands exit with code 2.

    Parameters
    ----------
    rule
        The rule, worded to follow the place: "must be positive".
    value
        The offending value; its first characters are shown.
    place
        Position in the file: a dotted key, "row 3", "line 7".
    file
        The file, as the user named it.
    remedy
        How to fix it.

    Examples
    --------
    >>> ps.mechanisms.GRR(universe=10, epsilon=-1.0)
    Traceback (most recent call last):
        ...
    poolscope.core.errors.InputError: epsilon: epsilon must be positive, got -1.0
    """

    def __init__(
        self,
        rule: str,
        *,
        value: object = _NOTHING,
        place: str | None = None,
        file: str | PathLike[str] | None = None,
        remedy: str | None = None,
    ) -> None:
        super().__init__(rule)
        self.rule = rule
        # as text, since errors are pickled between processes and values may not be
        self.got = None if value is _NOTHING else format_value(value)
        self.place = place
        self.file = None if file is None else str(file)
        self.remedy = remedy

    def __str__(self) -> str:
        parts = [part for part in (self.file, self.place, self.rule) if part]
        line = ": ".join(_shortened(part, MAX_PART_LENGTH) for part in parts)
        if self.got is not None:
            line += f", got {self.got}"
        if self.remedy:
            line += f"; {self.remedy}"
        return one_line(line)

    def at(self, *, file: str | PathLike[str] | None = None, place: str | None = None) -> Self:
        """Return the error with a file and an outer place added.

        The outer place is put before the inner one. An error that has a file is complete: an outer place would belong
        to another file.
        """
        error = copy.copy(self)
        if self.file is None:
            error.place = ".".join(part for part in (place, self.place) if part) or None
            error.file = None if file is None else str(file)
        return error


class Stopped(PoolscopeError):
    """A command was stopped by the user or the system; the line says how to resume. Exit code 130 for Ctrl-C."""

    def __init__(self, message: str, *, code: int = 130) -> None:
        super().__init__(message)
        self.code = code


@contextmanager
def located(*, file: str | PathLike[str] | None = None, place: str | None = None) -> Iterator[None]:
    """Add file and place to every :class:`InputError` raised inside."""
    try:
        yield
    except InputError as error:
        raise error.at(file=file, place=place) from error.__cause__


@contextmanager
def reading(file: str | PathLike[str]) -> Iterator[None]:
    """Convert errors of reading an input file into an :class:`InputError` on that file."""
    try:
        with located(file=file):
            yield
    except FileNotFoundError:
        raise InputError("there is no such file", file=file) from None
    except IsADirectoryError:
        raise InputError("must be a file, is a folder", file=file) from None
    except UnicodeDecodeError as error:
        line = error.object.count(b"\n", 0, error.start) + 1
        raise InputError(
            "must be UTF-8 text",
            value=error.object[error.start : error.start + 1],
            place=f"line {line}",
            file=file,
        ) from None
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror or error}", file=file) from error


def check_count(name: str, count: int | None) -> None:
    """Check that an optional number of users or reports is positive."""
    if count is not None and count < 1:
        raise InputError(f"{name} must be at least 1", value=count)


def nearest(name: str, known: Iterable[str]) -> str | None:
    """Return the known name most similar to ``name``, or None."""
    by_lower_case = {candidate.lower(): candidate for candidate in known}
    # truncated, as the comparison is quadratic in the length and names come from files
    found = difflib.get_close_matches(name[:MAX_VALUE_LENGTH].lower(), by_lower_case, n=1)
    return by_lower_case[found[0]] if found else None


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return the remedy for an unknown name: the most similar known one, or else all of them."""
    names = list(known)
    near = nearest(name, names)
    if near is not None:
        return f"did you mean {near!r}?"
    return _shortened("known: " + ", ".join(names), MAX_PART_LENGTH)


def format_value(value: object) -> str:
    """Return a value as shown in messages: one line of at most :data:`MAX_VALUE_LENGTH` characters."""
    if getattr(value, "ndim", None) == 0 and hasattr(value, "item"):
        value = value.item()  # np.float64(-1.0) is shown as -1.0
    # truncated before repr, whose cost grows with the string
    text = repr(value[: 2 * MAX_VALUE_LENGTH] if isinstance(value, str | bytes) else value)
    return _shortened(one_line(text), MAX_VALUE_LENGTH)


def one_line(text: str) -> str:
    """Return ``text`` without line breaks, with control characters made visible."""
    return visible(" ".join(text.split()))


def visible(text: str, besides: str = "") -> str:
    """Return ``text`` with control, bidirectional and invisible characters shown as ``[U+202E]``.

    Otherwise two names could look the same. Line breaks are shown too, unless they are among ``besides``. Joiners
    within emojis and non-ASCII letters are kept.
    """

    def shown_as(found: re.Match[str]) -> str:
        mark, before = found[0], text[max(0, found.start() - 1) : found.start()]
        if mark in besides or unicodedata.category(mark) not in _UNSAFE:
            return mark
        joins = mark in _JOINERS and not before.isascii()
        return mark if joins else f"[U+{ord(mark):04X}]"

    return text if text.isascii() and text.isprintable() else re.sub(r"[^ -~]", shown_as, text)


#: Arguments whose option has another name.
_OPTIONS = {"mechanisms": "mechanism"}


def as_options(message: str) -> str:
    """Return a message of the library with `argument_names` replaced by the options of the command line."""
    return re.sub(r"`(\w+)`", lambda named: "--" + _OPTIONS.get(named[1], named[1]).replace("_", "-"), message)


def _shortened(text: str, length: int) -> str:
    return text if len(text) <= length else text[: length - 3] + "..."
