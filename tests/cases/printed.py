"""Compare what code prints with what a page shows."""

import re

import numpy as np
import pytest

#: The release of NumPy whose random generator made the pages: with another, an adversary's estimates are other draws.
PAGES_NUMPY = "2.4"

NUMBER = re.compile(r"\d[\d,]*(?:\.\d+)?(?:e[+-]?\d+)?")


def assert_printed(printed, shown, message="", numpy_version=np.__version__):
    """Both are the same; with another NumPy the words are the same and the numbers are near each other."""
    if numpy_version.startswith(f"{PAGES_NUMPY}."):
        assert printed == shown, message
        return
    assert _words(printed) == _words(shown), message
    assert _numbers(printed) == pytest.approx(_numbers(shown), rel=0.1, abs=0.03), message


def _words(text):
    """The text without its numbers, and without the widths of columns that follow from them."""
    return re.sub(r"[\s─━═-]+", " ", NUMBER.sub("#", text))


def _numbers(text):
    return [float(found.replace(",", "")) for found in NUMBER.findall(text)]
