"""Pages made from the code are complete, every page is in the site, and internal links lead somewhere."""

import fnmatch
import re
import sys
from pathlib import Path

import pytest
import typer

import poolscope
from poolscope.cli.commands import app
from poolscope.html.glossary import MEANINGS

DOCS = Path(__file__).parent.parent / "docs"
#: Pages in the repository; those of docs/api are made.
PAGES = [path for path in sorted(DOCS.rglob("*.md")) if not {"api", "_build"} & set(path.parts[len(DOCS.parts) :])]

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
    spaces = ("mechanisms", "attacks", "popularity", "priors", "metrics", "figures", "random")
    wanted = {f"poolscope.{name}" for name in poolscope.__all__ if name not in (*spaces, "__version__")}
    for space in spaces:
        wanted |= {f"poolscope.{space}.{name}" for name in getattr(poolscope, space).__all__}
    assert wanted - facts == {"poolscope.mechanisms.MECHANISMS", "poolscope.mechanisms.Reports"}
    assert facts <= wanted


def test_every_page_is_in_a_table_of_contents_and_no_heading_is_empty(made):
    pages = {path.relative_to(DOCS).with_suffix("").as_posix(): path.read_text() for path in PAGES}
    known = {f"api/{name}" for name in made} | set(pages)
    named = set()
    for text in pages.values():
        for block in re.findall(r"```\{toctree\}\n(.*?)```", text, flags=re.DOTALL):
            lines = [line.strip() for line in block.splitlines() if line.strip() and not line.startswith(":")]
            wanted = [line.partition("<")[2].rstrip(">") or line for line in lines]
            named |= {page for entry in wanted for page in ([entry] if entry in known else matching(entry, known))}
            assert all(entry in known or matching(entry, known) for entry in wanted), wanted
    assert named == known - {"index"}
    for name, text in pages.items():
        assert not re.search(r"^(#+) .*\n+\1 ", text, flags=re.MULTILINE), f"{name} has an empty heading"


def matching(pattern, names):
    """The pages of the folder of a table of contents that a pattern selects."""
    return [name for name in names if "/" not in name and "[" in pattern and fnmatch.fnmatchcase(name, pattern)]


def anchors(text):
    """The anchors that the site makes of a page's headings."""
    text = re.sub(r"(?ms)^```.*?^```", "", text)
    heads = [re.sub(r"[`*]|\[|\]\(.*?\)", "", head) for head in re.findall(r"(?m)^#+ (.*)$", text)]
    return {re.sub(r"[^\w\- ]", "", head.lower()).replace(" ", "-") for head in heads}


def broken(path, text, made):
    """The internal links of a page that lead nowhere."""
    text = re.sub(r"(?ms)^```.*?^```", "", text)
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        if re.match(r"\w+:", target):
            continue
        file, _, anchor = target.partition("#")
        found = (path.parent / file).resolve() if file else path
        if found.parent == DOCS / "api" and found.stem in made:
            continue
        if not found.exists() or (anchor and anchor not in anchors(found.read_text())):
            yield target


#: README, CONTRIBUTING, SUPPORT and their like.
ROOT_PAGES = sorted(DOCS.parent.glob("*.md"))


def test_every_internal_link_and_anchor_exists(made):
    faults = {str(path): list(broken(path, path.read_text(), made)) for path in [*PAGES, *ROOT_PAGES]}
    assert {path: found for path, found in faults.items() if found} == {}


def missing(text):
    """The files of the repository that a page names and that are not there."""
    named = set(re.findall(r"\b(?:tests|benchmarks|src/poolscope)/[\w/]+\.(?:py|toml)\b", text))
    lacking = () if (DOCS.parent / ".github").exists() else ("benchmarks/",)  # of an sdist
    return sorted(name for name in named if not name.startswith(lacking) and not (DOCS.parent / name).exists())


def test_every_file_that_a_page_names_exists():
    faults = {str(path): missing(path.read_text()) for path in [*PAGES, *ROOT_PAGES]}
    assert {path: found for path, found in faults.items() if found} == {}
    assert missing("`tests/conftest.py` and `tests/no_such_file.py`") == ["tests/no_such_file.py"]


def test_no_page_links_to_a_package_registry():
    """A project's source repository outlives its entry there."""
    host = re.compile(r"\b(?:pypi|pythonhosted|anaconda|npmjs)\.(?:org|com)\b")
    assert [path.name for path in [*PAGES, *ROOT_PAGES] if host.search(path.read_text())] == []


def test_a_page_beside_the_documentation_links_to_pages_of_the_site_alone():
    """Its text is included, and the site has no other files."""
    links = re.findall(r"\]\(([^)\s]+)\)", (DOCS.parent / "benchmarks" / "README.md").read_text())
    assert [link for link in links if not re.match(r"\w+:|#|\.\./docs/", link)] == []


def test_a_broken_link_is_found(made):
    page = "[a](index.md) [b](index.md#poolscope) [c](nowhere.md) [d](index.md#no-such) [e](https://example.org)"
    assert list(broken(DOCS / "index.md", page, made)) == ["nowhere.md", "index.md#no-such"]
