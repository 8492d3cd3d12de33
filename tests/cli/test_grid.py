"""Tables that fit their terminal."""

import io

import pytest

from poolscope.cli.terminal import UNLIMITED_WIDTH, Terminal, TextTable

HEADS = ["adversary", "n", *(f"number {i}" for i in range(8))]


def shown(width=None, name="strong", box=True):
    table = TextTable(title="What was found", heads=HEADS, **{} if box else {"box": None})
    for n in (7, 180):
        table.add(name, str(n), *(f"{i}.{n:04d}" for i in range(8)))
        table.section()
    out = io.StringIO()
    console = Terminal(file=out, **{} if width is None else {"width": width})
    table.print(console)
    return out.getvalue()


@pytest.mark.parametrize("width", [30, 60, 80])
@pytest.mark.parametrize("box", [True, False])
def test_digits_are_never_cut(width, box):
    text = shown(width, box=box)
    assert all(len(line) <= width for line in text.splitlines())
    for i in range(8):
        assert text.count(f"number {i}") == 1
        for n in (7, 180):
            assert f"{i}.{n:04d}" in text
    assert text.count("What was found") == 1
    parts = text.count("adversary")
    assert parts > 1
    assert text.count("180 ") >= parts, "every part says what its rows are about"


def test_long_names_give_way_to_numbers():
    text = shown(40, name="an adversary with a name that is far too long")
    assert all(len(line) <= 40 for line in text.splitlines())
    for i in range(8):
        assert f"{i}.0180" in text


def test_a_file_has_no_edge(monkeypatch):
    monkeypatch.delenv("COLUMNS", raising=False)
    text = shown()
    assert text.count("adversary") == 1
    assert max(map(len, text.splitlines())) > 100
    assert Terminal(file=io.StringIO()).width == UNLIMITED_WIDTH


def test_sentences_wrap_between_words():
    for width in range(20, 40):
        out = io.StringIO()
        Terminal(file=out, width=width).say("The adversary is correct for 58% of them (random: 17%).")
        lines = out.getvalue().splitlines()
        assert " ".join(lines) == "The adversary is correct for 58% of them (random: 17%)."
        assert all(len(line) <= width for line in lines)
