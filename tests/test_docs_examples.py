"""Every public name has an example, and every example prints what it says."""

import doctest
import inspect
import sys
from pathlib import Path

import pytest
from cases.selection import mostly

import poolscope

DOCS = Path(__file__).parent.parent / "docs"
SPACES = ("mechanisms", "attacks", "popularity", "priors", "metrics", "figures", "random")
FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


def named():
    """Every public name and what it is; data and aliases have no docstring of their own, their namespace's tells."""
    for name in poolscope.__all__:
        if name not in (*SPACES, "__version__"):
            yield name, getattr(poolscope, name)
    for space in SPACES:
        home = getattr(poolscope, space)
        for name in home.__all__:
            thing = getattr(home, name)
            yield f"{space}.{name}", thing if inspect.isclass(thing) or inspect.isfunction(thing) else home


PUBLIC = dict(named())


@pytest.fixture(scope="module")
def beginning():
    """The names that every example begins with."""
    sys.path.insert(0, str(DOCS))
    try:
        from make_reference import BEGINNING
    finally:
        sys.path.remove(str(DOCS))
    names = {}
    exec(BEGINNING, names)
    return names


def faults(name, thing, beginning):
    """What an example prints other than it says; an error where there is none."""
    # a generator goes on where it was, so that everyone gets one of their own
    given = {**beginning, "rng": beginning["np"].random.default_rng(1)}
    test = doctest.DocTestParser().get_doctest(inspect.getdoc(thing), given, name, None, 0)
    assert test.examples, f"{name} has no example"
    facts = []
    doctest.DocTestRunner(optionflags=FLAGS).run(test, out=facts.append)
    return "".join(facts)


#: Examples that play the same game as another example, or as a test of the same call, that runs by default.
PLAYED_AGAIN = {
    *(
        "Advice",
        "CollectionsAdvice",
        "Comparison",
        "Estimated",
        "Inferred",
        "Inspection",
        "Progress",
        "Reproduction",
        "Summary",
        "Sweep",
    ),
    *("figures.sweep_plot", "metrics.CollectionRecord", "metrics.CollectionsSummary", "metrics.Contribution"),
    *("metrics.SampledAttribute", "metrics.TupleEpsilon", "metrics.gate", "sweep"),
    *("advise", "mechanisms.RSFD"),
}


@pytest.mark.parametrize("name", mostly(pytest.mark.slow, sorted(PUBLIC), *(set(PUBLIC) - PLAYED_AGAIN)))
def test_the_example_prints_what_it_says(name, beginning, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert not faults(name, PUBLIC[name], beginning)


def test_a_wrong_example_is_found(beginning):
    def wrong():
        """Nothing.

        >>> 1 + 1
        3
        """

    def without():
        """Nothing."""

    assert "Expected:" in faults("wrong", wrong, beginning)
    with pytest.raises(AssertionError, match="without has no example"):
        faults("without", without, beginning)


def test_data_and_aliases_are_told_of_in_their_namespace():
    facts = inspect.getdoc(poolscope.mechanisms)
    for name in poolscope.mechanisms.__all__:
        thing = getattr(poolscope.mechanisms, name)
        if not inspect.isclass(thing) and not inspect.isfunction(thing):
            assert f"``{name}``" in facts
