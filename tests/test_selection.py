"""The default selection leaves out what takes long, and no command, mechanism or kind of test."""

import fnmatch
import re
import types
from pathlib import Path

import pytest

from poolscope.cli.app import ORDER
from poolscope.mechanisms import MECHANISMS

TESTS = Path(__file__).parent

#: What runs a command, in the tests' process or in one of its own.
RUNNERS = {"called", "command", "poolscope", "start", "on_a_terminal", "subprocess", "app"}

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


def constants(code):
    """Strings of a function and of the functions inside it."""
    for value in code.co_consts:
        if isinstance(value, str):
            yield value
            # the program of a process of its own
            yield from re.findall(r"'poolscope', '([\w-]+)'", value)
        elif isinstance(value, tuple):
            yield from (part for part in value if isinstance(part, str))
        elif isinstance(value, types.CodeType):
            yield from constants(value)


def commands_run(items):
    """Names of commands that stand in tests that run one."""
    functions = {item.function.__code__ for item in items}
    return {name for code in functions if RUNNERS & set(code.co_names) for name in constants(code)} & set(ORDER)


def mechanisms_tried(items):
    """Names of mechanisms that are parameters of the conformance suite."""
    suite = [item for item in items if item.path.name == "test_conformance.py" and hasattr(item, "callspec")]
    return {item.callspec.params.get("name") for item in suite} & set(MECHANISMS)


def test_every_command_is_run_by_default(items):
    assert commands_run(by_default(items)) == set(ORDER)
    assert commands_run([item for item in items if marked(item)]) < set(ORDER), "the negative control"
    some = [item for item in by_default(items) if "figures" not in set(constants(item.function.__code__))]
    assert commands_run(some) == set(ORDER) - {"figures"}, "the negative control"


def test_every_mechanism_is_tried_by_default(items):
    assert mechanisms_tried(by_default(items)) == set(MECHANISMS)
    some = [item for item in by_default(items) if "loloha" not in item.name]
    assert mechanisms_tried(some) == set(MECHANISMS) - {"loloha"}, "the negative control"


@pytest.mark.parametrize("kind", ["browser", "cluster"])
def test_every_kind_of_test_runs_by_default(items, kind):
    assert any(any(item.iter_markers(kind)) for item in by_default(items))


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
