"""The code of tutorials and of other runnable pages runs as it stands, and prints what the pages show."""

import importlib.util
import re
from pathlib import Path

import pytest
from cases.printed import PAGES_NUMPY, assert_printed
from cases.selection import mostly, slow

DOCS = Path(__file__).parent.parent / "docs"


def _pages():
    spec = importlib.util.spec_from_file_location("run_pages", DOCS / "run_pages.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


PAGES = _pages()


@pytest.mark.parametrize("name", mostly(slow, PAGES.PAGES, "tutorials/study-a-mechanism.md"))
def test_a_page_prints_what_it_shows(name, tmp_path):
    """Updated by: python docs/run_pages.py"""
    page = (DOCS / name).read_text()
    compared = 0
    for block, printed in PAGES.run(page, tmp_path):
        shown = PAGES.expected(page, block)
        if shown is not None:
            assert_printed(PAGES.timeless(printed), PAGES.timeless(shown), block["code"])
            assert shown.strip(), f"nothing is shown behind {block['code']}"
            compared += 1
    assert compared >= (4 if name.startswith("tutorials/") else 1)
    for picture in PAGES.PICTURE.finditer(page):
        assert (tmp_path / picture["made"]).stat().st_size > 0
        assert (DOCS / picture["kept"]).stat().st_size > 0


def commands_of_pipelines(page):
    """The shell lines of the YAML examples of a page: steps of GitHub Actions and entries of pre-commit."""
    for example in re.findall(r"(?ms)^```yaml\n(.*?)^```$", page):
        yield from re.findall(r"(?m)^ *(?:- run|entry): (poolscope .*)$", example)


@pytest.mark.slow
def test_the_examples_of_pipelines_run_as_shell(tmp_path):
    """Each passes as it stands, and fails with a limit of 0."""
    page = (DOCS / "guides" / "gate-ci.md").read_text()
    (scenario,) = re.findall(r"(?ms)^```toml small.toml\n(.*?)^```$", page)
    (tmp_path / "small.toml").write_text(scenario)
    commands = list(commands_of_pipelines(page))
    assert [command.split()[1] for command in commands] == ["check", "audit", "check"]
    for command in commands:
        PAGES.run_shell(command, tmp_path)
    assert {"check.xml", "audit.xml"} <= {path.name for path in tmp_path.iterdir()}
    failing = commands[1].replace("> 0.05", "> 0").replace("--out ci", "--out other")
    with pytest.raises(RuntimeError, match="gate failed"):
        PAGES.run_shell(failing, tmp_path)


def test_a_page_that_lies_is_found(tmp_path):
    page = "```python\nprint(1 + 1)\n```\n\n```text\n3\n```\n\n```sh\necho 0.4 s\n```\n\n```text\n1.5 s\n```\n"
    flip_probability, truth = ((PAGES.expected(page, block), printed) for block, printed in PAGES.run(page, tmp_path))
    assert PAGES.timeless(flip_probability[0]) != PAGES.timeless(flip_probability[1])
    assert PAGES.timeless(truth[0]) == PAGES.timeless(truth[1])
    assert "```text\n2\n```" in PAGES.renewed(page, tmp_path)


def test_with_another_numpy_words_are_the_same_and_numbers_are_near():
    page = "│ strong │   7 │ 0.395 │ 0.348–0.443 │\\n└────┘"
    other = page.replace("0.395", "0.39").replace("────", "───")
    assert_printed(other, page, numpy_version="99.0.0")
    for wrong in (page.replace("strong", "weak"), page.replace("0.395", "0.495"), page.replace("   7 │", "")):
        with pytest.raises(AssertionError):
            assert_printed(wrong, page, numpy_version="99.0.0")
    with pytest.raises(AssertionError):
        assert_printed(other, page, numpy_version=f"{PAGES_NUMPY}.1")


def test_the_readme_quotes_what_another_page_prints():
    source = "```sh\npoolscope a\n```\n\n```text\nnew\n```\n"
    page = "```sh\npoolscope a\n```\n\n```text\nold\n```\n\n```sh\npoolscope b\n```\n\n```text\nown\n```\n"
    assert PAGES.quoted(page, source) == page.replace("old", "new")


def test_a_command_that_fails_is_an_error(tmp_path):
    with pytest.raises(RuntimeError, match="no-such-command"):
        list(PAGES.run("```sh\npoolscope no-such-command\n```\n", tmp_path))
