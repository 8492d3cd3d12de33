"""The list of deliberate mistakes fits the code: each can be made, and its tests are there."""

import ast
import functools
import importlib.util
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
SCRIPT = ROOT / "benchmarks" / "mutations.py"

if not SCRIPT.exists():
    pytest.skip("a source distribution has no benchmarks", allow_module_level=True)


def _script():
    spec = importlib.util.spec_from_file_location("mutations", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


MUTATIONS = _script()
LISTED = MUTATIONS.mutations_of(SCRIPT.with_suffix(".toml"))


@functools.cache
def text_of(file):
    return (ROOT / file).read_text(encoding="utf-8")


@pytest.mark.parametrize("file", sorted({mutation.file for mutation in LISTED}))
def test_every_mistake_of_a_file_can_be_made(file, tmp_path):
    """Somewhere else; what is left is Python."""
    path, text = tmp_path / file, text_of(file)
    path.parent.mkdir(parents=True)
    for mutation in (mutation for mutation in LISTED if mutation.file == file):
        path.write_text(text, encoding="utf-8")
        mutation.apply(tmp_path)
        changed = path.read_text(encoding="utf-8")
        assert changed != text, mutation.name
        if path.suffix == ".py":
            assert ast.parse(changed, filename=mutation.name)


def test_every_mistake_names_tests_that_there_are():
    for mutation in LISTED:
        assert mutation.tests, mutation.name
        for test in mutation.tests:
            file, _, function = test.partition("::")
            assert f"def {function}" in text_of(file), mutation.name


def test_names_are_different():
    assert len({mutation.name for mutation in LISTED}) == len(LISTED)


@pytest.mark.parametrize(("old", "new"), [("y", "z"), ("x", "y"), ("x = 1", "x = 1")], ids=["absent", "twice", "same"])
def test_what_cannot_be_made_is_an_error(tmp_path, old, new):
    (tmp_path / "some.py").write_text("x = 1\nprint(x)\n")
    mutation = MUTATIONS.Mutation(name="some", file="some.py", old=old, new=new, tests=["tests"])
    with pytest.raises(SystemExit, match="must have the text once"):
        mutation.apply(tmp_path)


def test_a_mistake_that_a_test_notices_is_killed(tmp_path, monkeypatch):
    """And taken back."""
    (tmp_path / "tests").mkdir()
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "some.py").write_text("X, Y = 1, 1\n")
    (tmp_path / "tests" / "test_some.py").write_text("from some import X\n\ndef test_one():\n    assert X == 1\n")
    mutation = MUTATIONS.Mutation("some", file="src/some.py", old="1, 1", new="2, 3", tests=["tests/test_some.py"])
    # the plugins of this environment take longer to import than the test to run
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    monkeypatch.setenv("PYTEST_PLUGINS", "xdist.plugin")
    before = (tmp_path / "src" / "some.py").stat().st_mtime_ns
    verdict = MUTATIONS.tried(mutation, tmp_path, None)
    assert verdict.name == "killed"
    assert verdict.test.endswith("test_some.py::test_one")
    assert (tmp_path / "src" / "some.py").read_text() == "X, Y = 1, 1\n"
    assert (tmp_path / "src" / "some.py").stat().st_mtime_ns == before


def test_compiled_code_that_a_change_may_be_in_is_removed(tmp_path):
    """Numba compares times of the kernel's own file: kernels that call a changed one would stay as they are."""
    kernels = tmp_path / MUTATIONS.KERNELS
    cache = kernels / "__pycache__"
    cache.mkdir(parents=True)
    for name, used in {"one": "", "two": "one", "three": "two", "other": ""}.items():
        (kernels / f"{name}.py").write_text(f"from poolscope.kernels.{used} import f\n" if used else "")
        (cache / f"{name}.f-3.py311.nbi").touch()
        (cache / f"{name}.f-3.py311.1.nbc").touch()
    MUTATIONS.remove_compiled(tmp_path, "src/poolscope/metrics/one.py")
    assert len(list(cache.iterdir())) == 8
    MUTATIONS.remove_compiled(tmp_path, (MUTATIONS.KERNELS / "two.py").as_posix())
    assert {path.name.partition(".")[0] for path in cache.iterdir()} == {"one", "other"}
    MUTATIONS.remove_compiled(tmp_path, (MUTATIONS.KERNELS / "one.py").as_posix())
    assert {path.name.partition(".")[0] for path in cache.iterdir()} == {"other"}


@pytest.mark.parametrize(
    ("code", "verdict"), [(MUTATIONS.PASSED, "survived"), *((code, "undecided") for code in MUTATIONS.OUT_OF_TIME)]
)
def test_tests_that_pass_kill_nothing_and_those_that_take_too_long_decide_nothing(tmp_path, monkeypatch, code, verdict):
    ended = subprocess.CompletedProcess([], code, stdout="1 passed")
    monkeypatch.setattr(MUTATIONS.subprocess, "run", lambda *arguments, **options: ended)
    assert MUTATIONS.notices(tmp_path, LISTED[0], None, 1) == (verdict, "")


def test_tests_that_cannot_be_run_are_an_error(tmp_path, monkeypatch):
    ended = subprocess.CompletedProcess([], 4, stdout="no such file", stderr="")
    monkeypatch.setattr(MUTATIONS.subprocess, "run", lambda *arguments, **options: ended)
    with pytest.raises(SystemExit, match=r"pytest could not run tests/.*\n.*no such file"):
        MUTATIONS.notices(tmp_path, LISTED[0], None, 1)


def test_a_record_has_the_last_verdict_of_every_change(tmp_path):
    record, (one, two) = tmp_path / "record.csv", LISTED[:2]
    MUTATIONS.note(record, one, MUTATIONS.Verdict("survived"), None)
    MUTATIONS.note(record, two, MUTATIONS.Verdict("killed", "tests/test_some.py::test_one"), None)
    MUTATIONS.note(record, one, MUTATIONS.Verdict("killed", "tests/test_some.py::test_two"), "")
    assert [(row["verdict"], row["selection"]) for row in MUTATIONS.recorded(record).values()] == [
        ("killed", "all"),
        ("killed", "default"),
    ]


@pytest.mark.parametrize("part", ["file", "old", "new", "tests"])
def test_a_change_that_is_edited_after_its_verdict_remains(tmp_path, part):
    record, one = tmp_path / "record.csv", LISTED[0]
    MUTATIONS.note(record, one, MUTATIONS.Verdict("killed", f"{one.tests[0]}::test_one"), None)
    rows = MUTATIONS.recorded(record)
    assert MUTATIONS.is_killed(one, rows)
    edited = one._replace(**{part: [*one.tests, one.tests[0]] if part == "tests" else getattr(one, part) + " "})
    assert not MUTATIONS.is_killed(edited, rows)


def test_a_change_that_survived_or_is_new_remains(tmp_path):
    record, (one, two) = tmp_path / "record.csv", LISTED[:2]
    MUTATIONS.note(record, one, MUTATIONS.Verdict("survived"), None)
    assert not any(MUTATIONS.is_killed(mutation, MUTATIONS.recorded(record)) for mutation in (one, two))


def test_nine_of_ten_changes_are_killed_and_seven_by_default():
    rows = MUTATIONS.recorded(SCRIPT.with_suffix(".csv"))
    assert set(rows) == {mutation.name for mutation in LISTED}
    assert [mutation.name for mutation in LISTED if rows[mutation.name]["checksum"] != mutation.checksum] == []
    by_default = [mutation for mutation in LISTED if rows[mutation.name]["selection"] == "default"]
    killed, quickly = (sum(MUTATIONS.is_killed(one, rows) for one in some) for some in (LISTED, by_default))
    assert killed >= 0.9 * len(rows)
    assert quickly >= 0.7 * len(rows)
    numbers = {
        "listed and tried": len(rows),
        "killed by the default selection": quickly,
        "killed by slow or statistical tests only": killed - quickly,
        "survived, or undecided after 100 seconds": len(rows) - killed,
    }
    table = "".join(f"| {changes} | {number} |\n" for changes, number in numbers.items())
    assert table in text_of("benchmarks/README.md")
