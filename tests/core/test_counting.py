"""Counts are written with their nouns."""

import pytest

from poolscope.core.counting import counted


@pytest.mark.parametrize(
    ("count", "noun", "text"),
    [(0, "user", "0 users"), (1, "user", "1 user"), (2, "report", "2 reports"), (12_345, "link", "12,345 links")],
)
def test_one_is_singular(count, noun, text):
    assert counted(count, noun) == text
