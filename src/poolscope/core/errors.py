"""Every exception, and how an error learns the file and the place it belongs to.

An :class:`InputError` is raised where a rule is broken and knows the rule and the value; whoever
knows the file or the key adds it on the way up with :func:`located`. The result is one line::

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

LONGEST_VALUE = 80
"""Characters of a value that a message shows."""

LONGEST_PART = 300
"""Characters of any other part: keys and rules come from files and other libraries too."""

_NOTHING = object()

#: Categories of characters that are obeyed or unseen: controls, formats, surrogates, separators of lines.
_OBEYED = ("Cc", "Cf", "Cs", "Zl", "Zp")

#: Joiners, and the tags of emojis.
_JOINERS = ("\u200c", "\u200d", *map(chr, range(0xE0020, 0xE0080)))


class PoolscopeError(Exception):
    """Anything that this package raises on purpose.

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
    """The input is wrong: exit code 2 of a command, one line.

    Parameters
    ----------
    rule
        What must hold, to be read after the place: "must be positive".
    value
        What was found instead. Its first characters are shown.
    place
        Where in the file: a dotted key, "row 3", "line 7".
    file
        The file, as the user named it.
    remedy
        What to do about it.

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
        # The text, not the value: an error travels between processes, a value may not.
        self.got = None if value is _NOTHING else shown(value)
        self.place = place
        self.file = None if file is None else str(file)
        self.remedy = remedy

    def __str__(self) -> str:
        parts = [part for part in (self.file, self.place, self.rule) if part]
        line = ": ".join(_shortened(part, LONGEST_PART) for part in parts)
        if self.got is not None:
            line += f", got {self.got}"
        if self.remedy:
            line += f"; {self.remedy}"
        return one_line(line)

    def at(self, *, file: str | PathLike[str] | None = None, place: str | None = None) -> Self:
        """The same error, seen from one level further out.

        An outer place is put before an inner one. An error that has its file is complete: an outer
        place would be in another file.
        """
        error = copy.copy(self)
        if self.file is None:
            error.place = ".".join(part for part in (place, self.place) if part) or None
            error.file = None if file is None else str(file)
        return error


class Stopped(PoolscopeError):
    """The user or the system stopped a command: one line that says how to go on, and an exit code, 130 for Ctrl-C."""

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
    """Turn what goes wrong when an input file is read into an :class:`InputError` on that file."""
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
    """Refuse a number of users or reports that is none; where it is left out another takes its place."""
    if count is not None and (isinstance(count, bool) or not hasattr(count, "__index__")):
        raise InputError(f"{name} must be a whole number", value=count)
    if count is not None and count < 1:
        raise InputError(f"{name} must be at least 1", value=count)


def nearest(name: str, known: Iterable[str]) -> str | None:
    """The known name most like ``name``, or None where nothing is alike."""
    by_lower_case = {candidate.lower(): candidate for candidate in known}
    # Cut, as the comparison is quadratic in the length, and names come from files.
    found = difflib.get_close_matches(name[:LONGEST_VALUE].lower(), by_lower_case, n=1)
    return by_lower_case[found[0]] if found else None


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """The remedy for an unknown name: the nearest known one, or else all of them."""
    names = list(known)
    near = nearest(name, names)
    if near is not None:
        return f"did you mean {near!r}?"
    return _shortened("known: " + ", ".join(names), LONGEST_PART)


def shown(value: object) -> str:
    """A value as a message shows it: one line of at most :data:`LONGEST_VALUE` characters."""
    if getattr(value, "ndim", None) == 0 and hasattr(value, "item"):
        value = value.item()  # np.float64(-1.0) reads as -1.0
    # Cut before repr as well, which for a long string costs as much as the string.
    text = repr(value[: 2 * LONGEST_VALUE] if isinstance(value, str | bytes) else value)
    return _shortened(one_line(text), LONGEST_VALUE)


def one_line(text: str) -> str:
    """``text`` without line breaks, in which characters that a terminal would obey are shown."""
    return visible(" ".join(text.split()))


def visible(text: str, besides: str = "") -> str:
    """``text`` with control characters, and marks that hide or turn text, shown as ``[U+202E]`` and never obeyed.

    Without that two names could look alike. Line breaks count, unless they are among ``besides``. What joins emojis and
    letters beyond ASCII to one sign is left where it does.
    """

    def shown_as(found: re.Match[str]) -> str:
        mark, before = found[0], text[max(0, found.start() - 1) : found.start()]
        if mark in besides or unicodedata.category(mark) not in _OBEYED:
            return mark
        joins = mark in _JOINERS and not before.isascii()
        return mark if joins else f"[U+{ord(mark):04X}]"

    return text if text.isascii() and text.isprintable() else re.sub(r"[^ -~]", shown_as, text)


def as_options(message: str) -> str:
    """A message of the library, which calls its arguments `by_name`, as the command line calls them: --by-name."""
    return re.sub(r"`(\w+)`", lambda named: "--" + named[1].replace("_", "-"), message)


def _shortened(text: str, length: int) -> str:
    return text if len(text) <= length else text[: length - 3] + "..."
