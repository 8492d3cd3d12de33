"""Exports, docstrings and the page of all public names are one."""

import importlib.util
import inspect
from pathlib import Path

import pytest

import poolscope

DOCS = Path(__file__).parent.parent / "docs"
SPACES = ("mechanisms", "popularity", "priors", "metrics", "figures")


@pytest.fixture(scope="module")
def api():
    spec = importlib.util.spec_from_file_location("make_api", DOCS / "make_api.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_page_is_made_of_the_code(api):
    """Mended by: python docs/make_api.py > docs/api.md"""
    assert (DOCS / "api.md").read_text() == api.page()


def test_every_public_name_is_on_the_page_and_about_25_are_at_the_root(api):
    listed = {name for names, _ in api.GROUPS.values() for name in names.split()} | set(api.SPACES)
    assert listed == set(poolscope.__all__) - {"__version__"}
    assert tuple(api.SPACES) == SPACES
    assert 20 <= len(poolscope.__all__) <= 32


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
