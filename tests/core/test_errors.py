import pickle

import numpy as np
import pytest

from poolscope.core.errors import (
    MAX_VALUE_LENGTH,
    InputError,
    PoolscopeError,
    did_you_mean,
    located,
    nearest,
    one_line,
    reading,
    visible,
)


def test_says_file_place_rule_value_and_remedy():
    error = InputError("must be positive", value=-1, place="epsilon", file="s.toml", remedy="try 4")
    assert isinstance(error, PoolscopeError)
    assert str(error) == "s.toml: epsilon: must be positive, got -1; try 4"
    assert str(InputError("must not be empty")) == "must not be empty"


def test_none_is_a_value():
    assert str(InputError("must be a text", value=None)) == "must be a text, got None"


def test_context_is_added_from_the_inside_out():
    error = InputError("must be positive", place="epsilon").at(place="mechanism")
    assert str(error.at(file="s.toml")) == "s.toml: mechanism.epsilon: must be positive"


def test_an_error_with_its_file_is_complete():
    error = InputError("must be a number", place="row 3", file="objects.csv")
    assert str(error.at(file="s.toml", place="universe")) == str(error)


def test_located_keeps_the_cause():
    cause = ValueError("x")
    with pytest.raises(InputError, match=r"^f: p: rule$") as caught, located(file="f", place="p"):
        raise InputError("rule") from cause
    assert caught.value.__cause__ is cause


@pytest.mark.parametrize("value", ["two\nlines", "a\x1b[31mred", ["x\n"] * 1000, "x" * 10**6, "\u2028", np.zeros(500)])
def test_is_one_printable_line(value):
    line = str(InputError("rule\nwith break", value=value, place="k\ney", remedy="do\rthis"))
    assert line.isprintable()
    assert len(line) < MAX_VALUE_LENGTH + 60


def test_what_is_obeyed_or_unseen_is_shown():
    """Two names never look alike because a mark in one of them is left out."""
    alike = ["ann", "an\u200bn", "\u202eann", "an\u200dn", "ann\x1b[2J", "a\x00nn", "an\u00adn", "ann\ud800"]
    assert len({visible(name) for name in alike}) == len(alike)
    assert visible("a\u202eb\u2066c\x1b") == one_line("a\u202eb\u2066c\x1b") == "a[U+202E]b[U+2066]c[U+001B]"
    assert visible("a\nb\tc") == "a[U+000A]b[U+0009]c"
    assert visible("a\nb\tc", besides="\n\t") == "a\nb\tc"
    assert one_line("a\n b\tc") == "a b c"
    # signs of several characters, of emojis and of scripts that need joiners, are as they were
    for name in ("👩\u200d🔬", "🏴\U000e0067\U000e0062\U000e007f", "می\u200cخواهم", "25\u202f%", "é", "Ω", "plain"):
        assert visible(name) == name


def test_long_places_are_cut():
    assert len(str(InputError("rule", place="x" * 10**6))) < 400


def test_numpy_numbers_read_as_numbers():
    assert str(InputError("rule", value=np.float64(-1))) == "rule, got -1.0"


def test_travels_between_processes():
    error = InputError("rule", value=object(), place="p", file="f", remedy="r")
    assert str(pickle.loads(pickle.dumps(error))) == str(error)


def test_reading_names_the_file(tmp_path):
    missing = tmp_path / "missing"
    with pytest.raises(InputError, match=r"missing: there is no such file$"), reading(missing):
        missing.read_bytes()
    with pytest.raises(InputError, match=r"must be a file, is a folder$"), reading(tmp_path):
        tmp_path.read_bytes()
    not_utf8 = r"f: line 2: must be UTF-8 text, got b'\\xff'"
    with pytest.raises(InputError, match=not_utf8), reading("f"):
        b"ok\n\xff".decode()
    with pytest.raises(InputError, match="f: cannot be read: No space left"), reading("f"):
        raise OSError(28, "No space left on device")


def test_nearest():
    assert nearest("epsilom", ["m", "epsilon", "hashes"]) == "epsilon"
    assert nearest("Zipf", ["uniform", "ZIPF"]) == "ZIPF"
    assert nearest("qqq", ["m", "epsilon"]) is None
    assert nearest("x" * 10**6, ["x" * 100]) is not None
    assert did_you_mean("epsilom", ["m", "epsilon"]) == "did you mean 'epsilon'?"
    assert did_you_mean("qqq", ["m", "epsilon"]) == "known: m, epsilon"
