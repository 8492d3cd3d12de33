"""The default selection leaves out what takes long, and no command, mechanism or kind of test."""

import ast
import fnmatch
import functools
from pathlib import Path

import pytest

from poolscope.cli.app import ORDER
from poolscope.mechanisms import MECHANISMS

TESTS = Path(__file__).parent

#: What runs a command, in the tests' process or in one of its own: functions whose first argument is its name.
RUNNERS = {"called", "command", "poolscope", "start"}

#: Files of which all tests are marked, each with the file whose tests by default are about the same.
LEFT_OUT = {
    "paper/test_published_cells.py": "paper/test_reproduce.py",
    "game/test_processor.py": "game/test_game.py",
}


class Collected:
    """A plugin that holds the tests that were found."""

    def pytest_collection_finish(self, session):
        self.items = list(session.items)


@pytest.fixture(scope="module")
def items(collected):
    """Every test there is, marked or not."""
    if collected is not None:
        return collected
    found = Collected()
    asked = ["--collect-only", "-qq", "-p", "no:cacheprovider", "-n", "0", "-m", "", str(TESTS)]
    assert pytest.main(asked, plugins=[found]) == 0
    return found.items


def marked(item):
    return any(item.iter_markers("slow")) or any(item.iter_markers("statistical"))


def by_default(items):
    return [item for item in items if not marked(item)]


def first_word(call):
    """Name of the command that a call runs, where it stands there."""
    name = getattr(call.func, "id", getattr(call.func, "attr", None))
    arguments = call.args
    if name == "invoke" and len(arguments) == 2 and isinstance(arguments[1], ast.List):
        arguments = arguments[1].elts
    elif name not in RUNNERS:
        return None
    return arguments[0].value if arguments and isinstance(arguments[0], ast.Constant) else None


def first_words(tree):
    return {first_word(node) for node in ast.walk(tree) if isinstance(node, ast.Call)} - {None}


@functools.cache
def functions_of(path):
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return {node.name: node for node in tree.body if isinstance(node, ast.FunctionDef)}


def commands_run(items):
    """Names of commands that tests run."""
    functions = [functions_of(item.path)[item.function.__name__] for item in items]
    return set().union(*map(first_words, functions)) & set(ORDER)


def starts_cluster(item):
    """By a fixture of `test_executors.py`, or as Dask's own classes are called."""
    keywords = ast.walk(functions_of(item.path)[item.function.__name__])
    own = any(isinstance(keyword, ast.keyword) and keyword.arg == "n_workers" for keyword in keywords)
    return own or bool({"dask", "one_worker"} & set(item.fixturenames))


def mechanisms_tried(items):
    """Names of mechanisms that are parameters of the conformance suite."""
    suite = [item for item in items if item.path.name == "test_conformance.py" and hasattr(item, "callspec")]
    return {item.callspec.params.get("name") for item in suite} & set(MECHANISMS)


def test_every_command_is_run_by_default(items):
    assert commands_run(by_default(items)) == set(ORDER)
    assert commands_run([item for item in items if marked(item)]) < set(ORDER), "the negative control"
    some = [item for item in by_default(items) if "fit" not in commands_run([item])]
    assert commands_run(some) == set(ORDER) - {"fit"}, "the negative control"


def test_only_the_first_word_is_a_command():
    """Neither a folder of that name nor a test that runs another command is a run of it."""
    calls = 'called("rerun", copy / "compare"), CliRunner().invoke(app, ["sweep", "audit"]), print("check")'
    assert first_words(ast.parse(calls)) == {"rerun", "sweep"}


def test_every_mechanism_is_tried_by_default(items):
    assert mechanisms_tried(by_default(items)) == set(MECHANISMS)
    some = [item for item in by_default(items) if "loloha" not in item.name]
    assert mechanisms_tried(some) == set(MECHANISMS) - {"loloha"}, "the negative control"


@pytest.mark.parametrize("kind", ["browser", "cluster"])
def test_every_kind_of_test_runs_by_default(items, kind):
    assert any(any(item.iter_markers(kind)) for item in by_default(items))


def test_what_starts_a_cluster_is_marked(items):
    starting = [item for item in items if starts_cluster(item)]
    assert {item.path.name for item in starting} >= {"test_executors.py", "test_custom_attack.py"}
    assert [item.nodeid for item in starting if not any(item.iter_markers("cluster"))] == []


def test_a_file_with_marked_tests_has_others(items):
    left, by = ({item.path.relative_to(TESTS).as_posix() for item in some} for some in (items, by_default(items)))
    assert left - by == LEFT_OUT.keys()
    assert set(LEFT_OUT.values()) <= by


def test_marks_decide_what_is_left_out(pytestconfig):
    assert "-m 'not slow and not statistical'" in " ".join(pytestconfig.inipath.read_text().splitlines())
    assert "--strict-markers" in pytestconfig.getini("addopts")


def test_named_cases_exist_and_others_are_left_out(items):
    cases = {}
    for item in items:
        for mark in item.iter_markers("default_cases"):
            cases.setdefault((item.nodeid.split("[")[0], mark.args), []).append(item)
    assert cases
    for (test, patterns), found in cases.items():
        ids = [item.callspec.id for item in found]
        assert [pattern for pattern in patterns if not fnmatch.filter(ids, pattern)] == [], test
        assert any(marked(item) for item in found), test
        assert any(not marked(item) for item in found), test
