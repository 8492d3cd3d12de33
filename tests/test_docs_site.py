"""The pages of the site that are made of the code have all of it, and every page is in the site."""

import re
import sys
from pathlib import Path

import pytest
import typer

import poolscope
from poolscope.cli.commands import app
from poolscope.html.glossary import MEANINGS

DOCS = Path(__file__).parent.parent / "docs"
COMMANDS = typer.main.get_command(app).commands


@pytest.fixture(scope="module")
def made():
    """Name and text of every page that is made."""
    sys.path.insert(0, str(DOCS))
    try:
        from make_reference import pages
    finally:
        sys.path.remove(str(DOCS))
    return dict(pages())


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_a_command_is_there_with_all_its_options(name, made):
    page = made["commands"]
    section = page[page.index(f"## poolscope {name}\n") :].partition("\n## ")[0]
    assert COMMANDS[name].help.strip().splitlines()[0] in section
    for parameter in COMMANDS[name].params:
        assert all(f"`{option}`" in section for option in parameter.opts if option.startswith("--")), parameter.name


def test_every_word_is_in_the_glossary(made):
    for word, meaning in MEANINGS.items():
        assert f"\n{word}\n  {meaning}\n" in made["glossary"]


def test_every_public_name_is_in_the_reference(made):
    pages = "".join(made.values())
    facts = set(re.findall(r"^\.\. auto(?:class|function|exception):: (\S+)$", pages, flags=re.MULTILINE))
    spaces = ("mechanisms", "popularity", "priors", "metrics", "figures")
    wanted = {f"poolscope.{name}" for name in poolscope.__all__ if name not in (*spaces, "__version__")}
    for space in spaces:
        wanted |= {f"poolscope.{space}.{name}" for name in getattr(poolscope, space).__all__}
    assert wanted - facts == {"poolscope.mechanisms.MECHANISMS", "poolscope.mechanisms.Reports"}
    assert facts <= wanted


def test_every_page_is_in_a_table_of_contents_and_no_heading_is_empty(made):
    listed = {f"reference/{name}" for name in made}
    pages = {path.stem: path.read_text() for path in DOCS.glob("*.md")}
    named = set()
    for text in pages.values():
        for block in re.findall(r"```\{toctree\}\n(.*?)```", text, flags=re.DOTALL):
            lines = [line.strip() for line in block.splitlines() if line.strip() and not line.startswith(":")]
            named |= {line.partition("<")[2].rstrip(">") or line for line in lines}
    assert named == listed | set(pages) - {"index"}
    for name, text in pages.items():
        assert not re.search(r"^(#+) .*\n+\1 ", text, flags=re.MULTILINE), f"{name} has an empty heading"
