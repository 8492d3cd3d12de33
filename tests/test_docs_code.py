"""Code and commands of the documentation use names, options and keys that exist, also where no test runs them."""

import ast
import importlib
import inspect
import re
import tomllib
from pathlib import Path

import pytest
import typer

import poolscope
from poolscope.cli.commands import app

ROOT = Path(__file__).parent.parent
COMMANDS = typer.main.get_command(app).commands
PAGES = {
    path.relative_to(ROOT).as_posix(): path.read_text()
    for path in [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
    if not {"api", "_build", "_extra"} & set(path.relative_to(ROOT).parts)
}


def unknown_names(code):
    """Public names and imports of a block of Python that poolscope does not have."""
    tree = ast.parse(code)
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("poolscope"):
            home = importlib.import_module(node.module)
            yield from (f"{node.module}.{name.name}" for name in node.names if not hasattr(home, name.name))
        chain = []
        while isinstance(node, ast.Attribute):
            chain.append(node.attr)
            node = node.value
        if chain and isinstance(node, ast.Name) and node.id == "ps":
            thing, path = poolscope, "ps"
            for name in reversed(chain):
                if not (inspect.ismodule(thing) or inspect.isclass(thing)):
                    break
                path = f"{path}.{name}"
                if not hasattr(thing, name) and name not in getattr(thing, "__annotations__", {}):
                    yield path
                    break
                thing = getattr(thing, name, None)


def unknown_options(text):
    """Commands and options of shell blocks and of inline code that the command line does not have."""
    shell = "\n".join(re.findall(r"(?ms)^```sh\n(.*?)^```", text))
    lines = [line.partition(" #")[0] for line in shell.splitlines()]
    outside = re.sub(r"(?ms)^```.*?^```", "", text)
    for line in [*lines, *re.findall(r"`(poolscope [^`]*)`", outside)]:
        for part in re.findall(r"(?:^|[/ ])poolscope ([a-z]+)((?: (?![|>&])\S+)*)", line):
            name, rest = part
            if name not in COMMANDS:
                yield f"poolscope {name}"
                continue
            known = {
                option for parameter in COMMANDS[name].params for option in parameter.opts + parameter.secondary_opts
            }
            yield from (
                f"poolscope {name} {option}" for option in re.findall(r"--[a-z-]+", rest) if option not in known
            )


@pytest.mark.parametrize("page", sorted(PAGES))
def test_every_name_option_and_table_is_valid(page):
    text = PAGES[page]
    faults = [fault for code in re.findall(r"(?ms)^```python\n(.*?)^```", text) for fault in unknown_names(code)]
    assert not faults
    assert not list(unknown_options(text))
    for block in re.findall(r"(?ms)^```toml[^\n]*\n(.*?)^```", text):
        tomllib.loads(block)


def test_unknown_names_and_options_are_found():
    code = "import poolscope as ps\nfrom poolscope.metrics import nothing\nps.audit\nps.metrics.nowhere(ps.play)\n"
    assert sorted(unknown_names(code)) == ["poolscope.metrics.nothing", "ps.metrics.nowhere"]
    page = "```sh\npoolscope audit a --users 3 > out.txt\npoolscope adit\n```\n\n`poolscope check x --nothing`\n"
    assert list(unknown_options(page)) == ["poolscope adit", "poolscope check --nothing"]
