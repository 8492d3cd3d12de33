"""Options that are lists, written with commas."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from poolscope.core.errors import InputError

Value = TypeVar("Value")


def words(text: str) -> list[str]:
    """The parts of a list."""
    return [part.strip() for part in text.split(",") if part.strip()]


def numbers(text: str, option: str) -> list[float]:
    """The numbers of a list."""
    return _each(text, option, float, "numbers")


def counts(text: str, option: str) -> list[int]:
    """The whole numbers of a list."""
    return _each(text, option, int, "whole numbers")


def _each(text: str, option: str, kind: Callable[[str], Value], what: str) -> list[Value]:
    try:
        return [kind(part) for part in words(text)]
    except ValueError:
        raise InputError(f"must be {what} with commas between them", value=text, place=option) from None
