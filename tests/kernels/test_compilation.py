"""When kernels are compiled, and where they are cached."""

import ast
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from numba import njit

import poolscope
from poolscope.kernels.compilation import BackgroundCompile

CALL = """
import warnings
warnings.simplefilter("error" if {strict} else "always")
{before}
import numpy as np
from poolscope.kernels.compilation import watched
told = []
with watched(lambda: told.append(1)):
    from poolscope.kernels.random import uniforms
    out = np.empty(1)
    uniforms(np.array([1], dtype=np.uint64), 0, out)
print(len(told), out[0])
"""

#: numba finds out whether a folder can be written by writing there.
READ_ONLY = """
import os, tempfile
first = tempfile.TemporaryFile
def refuse(*arguments, dir=None, **options):
    if "poolscope-kernels-" not in str(dir):
        raise OSError("read-only file system")
    return first(*arguments, dir=dir, **options)
tempfile.TemporaryFile = refuse
"""


def run(tmp_path, before="", strict=True, after=""):
    code = CALL.format(before=before, strict=strict) + after
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment, check=True)
    return done.stdout.split(), done.stderr


#: Where processes that this one starts would keep kernels, and where this one was told to.
PLACES = """
from poolscope.kernels.compilation import cache_environment
print(cache_environment()["NUMBA_CACHE_DIR"], os.environ["NUMBA_CACHE_DIR"])
"""


@pytest.fixture(scope="module")
def kept(tmp_path_factory):
    """A folder in which a process has kept its kernels, and what the process printed."""
    folder = tmp_path_factory.mktemp("kept")
    return folder, run(folder, "import os", after=PLACES)[0]


@pytest.fixture(scope="module")
def refused(tmp_path_factory):
    """A folder in which a process could not keep its kernels, and the output of the process."""
    folder = tmp_path_factory.mktemp("refused")
    return folder, run(folder, READ_ONLY, strict=False, after=PLACES)


def test_compiling_is_told_once_after_an_install(kept):
    folder, (first, word, *_) = kept
    (second, same), _ = run(folder)
    assert int(first) >= 1
    assert (second, same) == ("0", word)


@pytest.mark.slow
def test_where_nothing_can_be_kept_it_is_said_once(kept, refused):
    _, ((compiled, word, *_), said) = refused
    assert int(compiled) >= 1
    assert said.count("set NUMBA_CACHE_DIR to a writable folder") == 1
    assert kept[1][1] == word


@pytest.mark.slow
def test_processes_that_are_started_keep_their_kernels_in_the_same_place(kept, refused):
    """Told to them alone: an import changes no environment."""
    folder, ((_, _, facts, before), _) = refused
    assert "poolscope-kernels-" in facts
    assert before == str(folder)
    folder, (_, _, same, _) = kept
    assert same == str(folder)


@njit(cache=True)
def twice(x):
    return 2 * x


def test_another_process_compiles_what_is_not_there_yet(tmp_path, monkeypatch):
    made = tmp_path / "made"
    aside = BackgroundCompile(twice, f"import pathlib, time; time.sleep(0.2); pathlib.Path({str(made)!r}).touch()")
    aside.wait()  # nothing was begun
    assert not made.exists()
    monkeypatch.setattr(type(twice), "stats", SimpleNamespace(cache_path=str(tmp_path)))
    aside.begin()
    aside.wait()
    assert made.exists()
    made.unlink()
    (tmp_path / "test_compilation.twice-1.py311.nbi").touch()
    aside.begin()
    aside.wait()
    assert not made.exists()


@pytest.mark.slow
def test_the_posterior_is_compiled_aside_as_the_game_calls_it(tmp_path):
    """The other process and the game compile one and the same kernel: nothing is compiled twice."""
    call = (
        "from poolscope.inference.posterior import COMPILED\n"
        "from poolscope.kernels.adaptive_quadrature import posteriors\n"
        "from poolscope import load_scenario, play\n"
        "COMPILED.begin()\n"
        "play(load_scenario('apple-emojis').game(0), 2, 0)\n"
        "print(sum(posteriors.stats.cache_misses.values()), len(posteriors.signatures))\n"
    )
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)}
    command = [sys.executable, "-c", call]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=True)
    assert done.stdout.split() == ["0", "1"]


def inner_functions():
    """The kernels that have no entry for Python, by module."""
    found = {}
    for path in (Path(poolscope.__file__).parent / "kernels").glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef) and {ast.unparse(d) for d in node.decorator_list} & INNER:
                found.setdefault(f"poolscope.kernels.{path.stem}", set()).add(node.name)
    return found


def is_entry(function):
    return isinstance(function, ast.Name) and function.id == "entry"


INNER = {"inner", "inner_counted", "inner_unchecked"}


def test_no_inner_kernel_is_used_outside_of_kernels():
    """A call from Python would crash; tests call them through `cases.compiled.entry`."""
    inner = inner_functions()
    assert "multiply_reports" in inner["poolscope.kernels.quadrature_grid"]
    package, tests = Path(poolscope.__file__).parent, Path(__file__).parent.parent
    used = set()
    for path in [*package.rglob("*.py"), *tests.rglob("*.py"), *(tests.parent / "benchmarks").glob("*.py")]:
        text = path.read_text(encoding="utf-8")
        # a module that does not name the package of the kernels imports none of them
        if path.parent == package / "kernels" or "poolscope.kernels" not in text:
            continue
        tree = ast.parse(text)
        names, modules, functions = set(), {}, [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
        compiled = {
            id(node)
            for function in functions
            if "njit" in {ast.unparse(decorator) for decorator in function.decorator_list}
            for node in ast.walk(function)
        }
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom) and node.module in inner:
                names |= {alias.name for alias in node.names} & inner[node.module]
            elif isinstance(node, ast.ImportFrom) and node.module == "poolscope.kernels":
                modules |= {a.asname or a.name: inner.get(f"poolscope.kernels.{a.name}", set()) for a in node.names}
        entered = {id(node.args[0]) for node in ast.walk(tree) if isinstance(node, ast.Call) and is_entry(node.func)}
        attributes = {
            node.attr
            for node in ast.walk(tree)
            if isinstance(node, ast.Attribute)
            and id(node) not in entered
            and isinstance(node.value, ast.Name)
            and node.attr in modules.get(node.value.id, ())
        }
        called = {n.id for n in ast.walk(tree) if isinstance(n, ast.Name) and n.id in names and id(n) not in compiled}
        used |= {(path.name, name) for name in called | attributes}
    assert not used
