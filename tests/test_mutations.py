"""The list of deliberate mistakes fits the code: each can be made, and its tests are there."""

import ast
import importlib.util
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


@pytest.mark.parametrize("mutation", LISTED, ids=lambda mutation: mutation.name)
def test_a_mistake_can_be_made(mutation, tmp_path):
    """Somewhere else; what is left is Python."""
    path = tmp_path / mutation.file
    path.parent.mkdir(parents=True)
    text = (ROOT / mutation.file).read_text(encoding="utf-8")
    path.write_text(text, encoding="utf-8")
    mutation.apply(tmp_path)
    assert path.read_text(encoding="utf-8") != text
    if path.suffix == ".py":
        ast.parse(path.read_text(encoding="utf-8"))
    assert mutation.tests
    for test in mutation.tests:
        file, _, function = test.partition("::")
        assert f"def {function}" in (ROOT / file).read_text(encoding="utf-8")


def test_names_are_different():
    assert len({mutation.name for mutation in LISTED}) == len(LISTED)


@pytest.mark.parametrize(("old", "new"), [("y", "z"), ("x", "y"), ("x = 1", "x = 1")], ids=["absent", "twice", "same"])
def test_what_cannot_be_made_is_an_error(tmp_path, old, new):
    (tmp_path / "some.py").write_text("x = 1\nprint(x)\n")
    mutation = MUTATIONS.Mutation(name="some", file="some.py", old=old, new=new, tests=["tests"])
    with pytest.raises(SystemExit, match="must have the text once"):
        mutation.apply(tmp_path)


@pytest.mark.parametrize(("value", "killed"), [(2, True), (1, False)])
def test_a_mistake_that_a_test_notices_is_killed(tmp_path, value, killed):
    """And taken back."""
    (tmp_path / "tests").mkdir()
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "some.py").write_text("X, Y = 1, 1\n")
    (tmp_path / "tests" / "test_some.py").write_text("from some import X\n\ndef test_one():\n    assert X == 1\n")
    mutation = MUTATIONS.Mutation(
        name="some", file="src/some.py", old="1, 1", new=f"{value}, 3", tests=["tests/test_some.py"]
    )
    assert MUTATIONS.tried(mutation, tmp_path, None) is killed
    assert (tmp_path / "src" / "some.py").read_text() == "X, Y = 1, 1\n"
