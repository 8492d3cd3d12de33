"""What a notebook shows: charts without a network, as wide as the column, and a line of progress."""

import io
import re
import sys

import pytest

import poolscope as ps
from poolscope.core.progress import SILENT, _LineProgress
from poolscope.figures import saving


@pytest.fixture(scope="module")
def chart():
    table = ps.metrics.trade_off(1.0, 7).table()
    return ps.figures.trade_off_curves(table.with_columns(n=7))


def test_a_chart_is_an_image_that_needs_no_network(chart):
    (kind, image), *more = chart._repr_mimebundle_().items()
    assert (kind, more) == ("image/svg+xml", [])
    assert image.startswith("<svg")
    assert "max-width: 100%" in image[:200]
    assert "False positive rate" in image
    links = set(re.findall(r"https?://[^\"' )]+", image))
    assert links <= {"http://www.w3.org/2000/svg", "http://www.w3.org/1999/xlink"}


def test_copies_are_shown_the_same_way(chart):
    assert chart.copy()._repr_mimebundle_() == chart._repr_mimebundle_()


def test_without_vl_convert_altair_shows_it(chart, monkeypatch):
    def missing(*_):
        raise ps.PoolscopeError("pictures as files need vl-convert")

    monkeypatch.setattr(saving, "check", missing)
    assert "image/svg+xml" not in chart._repr_mimebundle_()


def test_progress_is_one_line():
    stream = io.StringIO()
    progress = _LineProgress(stream)
    progress.stage("Preparing a long sentence")
    progress.begin(10)
    progress.tick(4)
    progress.tick(6)
    written = stream.getvalue()
    assert written.split("\r")[-1].rstrip() == "10 of 10 (100%)"
    assert len(written.split("\r")[-1]) > len("Preparing"), "the longer line is covered"
    assert written.count("\n") == 1


def test_compiling_is_said():
    from numba import njit

    stream = io.StringIO()
    progress = _LineProgress(stream)
    progress.begin(1)
    njit(lambda x: x + 1)(1)
    assert "compiling, once" in stream.getvalue()
    progress.tick(1)
    before = stream.getvalue()
    njit(lambda x: x + 2)(1)
    assert stream.getvalue() == before, "nothing is said after the end"


def test_auto_prints_where_somebody_looks(monkeypatch):
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    assert ps.Progress.auto() is SILENT
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    assert isinstance(ps.Progress.auto(), _LineProgress)
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    monkeypatch.setitem(sys.modules, "ipykernel", io)
    assert isinstance(ps.Progress.auto(), _LineProgress)
