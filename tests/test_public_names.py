"""Exports, docstrings, the page of all public names and what type checkers see are one."""

import ast
import importlib.util
import inspect
import os
import re
import subprocess
import sys
import typing
from pathlib import Path

import pytest

import poolscope

DOCS = Path(__file__).parent.parent / "docs"
SPACES = ("mechanisms", "attacks", "popularity", "priors", "metrics", "figures", "random")
SCRIPT = Path(__file__).parent / "typed" / "every_public_name.py"


@pytest.fixture(scope="module")
def api():
    spec = importlib.util.spec_from_file_location("make_api", DOCS / "make_api.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_page_is_made_of_the_code(api):
    """Mended by: python docs/make_api.py > docs/api.md"""
    assert (DOCS / "api.md").read_text() == api.page()


def test_every_public_name_is_on_the_page_and_about_50_are_at_the_root(api):
    listed = {name for names, _ in api.GROUPS.values() for name in names.split()} | set(api.SPACES)
    assert listed == set(poolscope.__all__) - {"__version__"}
    assert tuple(api.SPACES) == SPACES
    assert 45 <= len(poolscope.__all__) <= 64


@pytest.mark.parametrize("name", [n for n in poolscope.__all__ if n != "__version__"])
def test_every_public_name_is_documented(name):
    thing = getattr(poolscope, name)
    assert (inspect.getdoc(thing) or "").strip(), name
    assert name in dir(poolscope)


@pytest.mark.parametrize("space", SPACES)
def test_every_name_of_a_namespace_is_there_and_documented(space):
    home = getattr(poolscope, space)
    for name in home.__all__:
        assert (inspect.getdoc(getattr(home, name)) or "").strip(), name


def test_unknown_names_are_errors():
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        poolscope.nothing  # noqa: B018


def public():
    """Every public name, as a user writes it, and what it is."""
    for name in poolscope.__all__:
        if name not in SPACES:
            yield f"ps.{name}", getattr(poolscope, name)
    for space in SPACES:
        home = getattr(poolscope, space)
        yield from ((f"ps.{space}.{name}", getattr(home, name)) for name in home.__all__)


@pytest.mark.parametrize("space", ["", *SPACES])
def test_names_are_literal_and_no_others_are_listed(space):
    """Type checkers and editors read ``__all__`` without running it, and completion offers nothing else."""
    home = getattr(poolscope, space) if space else poolscope
    (assigned,) = (
        node.value
        for node in ast.parse(Path(home.__file__).read_text(encoding="utf-8")).body
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__"
    )
    assert ast.literal_eval(assigned) == home.__all__
    assert set(dir(home)) == set(home.__all__)


def test_what_a_public_function_returns_is_public():
    known = {id(thing) for _, thing in public()}
    for name, thing in public():
        if inspect.isfunction(thing):
            function = inspect.unwrap(thing)
            words = re.findall(r"\w+", str(inspect.signature(function).return_annotation))
            found = [function.__globals__.get(word) for word in words]
            ours = [one for one in found if inspect.isclass(one) and one.__module__.startswith("poolscope.")]
            assert all(id(one) in known for one in ours), f"{name} returns {words}"


# What type checkers see


def test_the_script_uses_every_public_name():
    written = {ast.unparse(node) for node in ast.walk(ast.parse(SCRIPT.read_text())) if isinstance(node, ast.Attribute)}
    assert {name for name, _ in public()} - written == set()


@pytest.mark.parametrize("name", ["advise", "audit", "compare"])
def test_annotations_are_known_at_run_time(name):
    """As libraries that read them need, although these modules import little."""
    assert "return" in typing.get_type_hints(getattr(poolscope, name))


def pyright(script):
    """What pyright says of a user's script, which finds this package and the libraries of this environment."""
    pytest.importorskip("pyright", reason="pyright is not installed: pip install '.[lint]'")
    done = subprocess.run(
        [sys.executable, "-m", "pyright", "--pythonpath", sys.executable, str(script)],
        capture_output=True,
        text=True,
        cwd=script.parent,
        env={**os.environ, "PYTHONPATH": str(Path(poolscope.__file__).parent.parent)},
    )
    return done.stdout + done.stderr


@pytest.mark.slow
def test_pyright_accepts_every_public_name():
    """In strict mode, as the script asks; mypy checks it in .ci/run."""
    assert "0 errors" in pyright(SCRIPT)


@pytest.mark.slow
def test_pyright_refuses_what_is_wrong(tmp_path):
    wrong = {
        "ps.audti": '"audti" is not a known attribute of module "poolscope"',
        "ps.mechanisms.GR": '"GR" is not a known attribute of module "poolscope.mechanisms"',
        "ps.mechanisms.Fresh(5)": '"Literal[5]" is incompatible with protocol "Mechanism"',
        "ps.reproduce(html='no')": '"Literal[\'no\']" is not assignable to "bool"',
        "ps.Universe.sized(9, {}).sizes": 'Cannot access attribute "sizes" for class "Universe"',
    }
    script = tmp_path / "script.py"
    script.write_text("\n".join(["import poolscope as ps", *(f"print({line})" for line in wrong)]))
    said = pyright(script)
    assert [message for message in wrong.values() if message not in said] == []
    assert f"{len(wrong)} errors" in said
