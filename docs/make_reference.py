"""Make the pages that come from the code: names with their docstrings, commands, glossary (into docs/api/)."""

import argparse
import inspect
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import typer
from make_api import GROUPS, SPACES, first_line

import poolscope as ps
from poolscope.cli.commands import app
from poolscope.html.glossary import MEANINGS

DOCS = Path(__file__).parent

#: The pages of the root's names, in the order of GROUPS.
FILES = dict(zip(("verbs", "arrays", "results", "parts", "running"), GROUPS, strict=True))

BEGINNING = """import numpy as np
import polars as pl
import poolscope as ps

universe = ps.Universe.sized(30, {"a": 5, "b": 5, "c": 5})
popularity = ps.popularity.zipf(universe, 1.2)
mechanism = ps.mechanisms.GRR(universe=30, epsilon=3.0)
strong = ps.Adversary(name="strong", universe=universe, popularity=popularity)
game = ps.Game(
    universe=universe,
    popularity=popularity,
    device=ps.mechanisms.Fresh(mechanism),
    adversaries=[strong],
    observations=[10, 40],
)
outcomes = ps.play(game, users=200, seed=1)
rows = ps.metrics.select(outcomes, "strong", 40)
rng = np.random.default_rng(1)
"""
"""The lines that every example begins with; the tests run them before each example."""


ENDS = """`poolscope COMMAND --help` prints the same. Exit code 0 means success. Exit code 2 means wrong input: one line
says where, and nothing is written. Exit code 1 means that a check or a gate failed, or another error."""


TERMS = "The terms of the HTML reports. [What every metric means](../explanation/metrics.md) has the definitions."


def pages() -> Iterator[tuple[str, str]]:
    """Yield the name and the text of every page."""
    for file, title in FILES.items():
        names, words = GROUPS[title]
        yield file, _names(title, words, "poolscope", names.split(), ps)
    for space in SPACES:
        home = getattr(ps, space)
        yield space, _names(f"ps.{space}", first_line(home), f"poolscope.{space}", _documented(home), home)
    yield "examples", _examples()
    yield "commands", commands()
    yield "glossary", glossary()


def write(folder: Path) -> None:
    """Write the pages that changed, so that a second build has little to do."""
    folder.mkdir(exist_ok=True)
    for name, text in pages():
        path = folder / f"{name}.md"
        if not path.exists() or path.read_text() != text:
            path.write_text(text)


def _documented(home: ModuleType) -> list[str]:
    return [name for name in home.__all__ if callable(getattr(home, name)) and _kind(getattr(home, name)) is not None]


def _kind(thing: object) -> str | None:
    """Return the directive that documents a thing; None for what has no docstring of its own."""
    if inspect.isclass(thing):
        return "autoexception" if issubclass(thing, BaseException) else "autoclass"
    return "autofunction" if inspect.isfunction(thing) else None


def _names(title: str, words: str, path: str, names: list[str], home: ModuleType) -> str:
    lines = [f"# {title}", "", words, "", "Examples start after [these lines](examples.md).", ""]
    for name in names:
        thing = getattr(home, name)
        lines += [f"## {name}", "", "```{eval-rst}", f".. {_kind(thing)}:: {path}.{name}"]
        if inspect.isclass(thing) and home is ps and any(name in getattr(ps, space).__all__ for space in SPACES):
            lines.append("   :no-index:")  # the index has it under its namespace
        if inspect.isclass(thing) and not issubclass(thing, tuple):
            lines.append("   :members:")
        if name == "Records":
            lines.append("   :members: to_polars, to_pandas, to_latex, to_html")
        lines += ["```", ""]
    return "\n".join(lines)


def _examples() -> str:
    return "\n".join(
        [
            "# Setup of the examples",
            "",
            "Every public name has an example. The tests run each example in an empty folder, after these lines:",
            "",
            "```python",
            f"{BEGINNING}```",
            "",
        ]
    )


def commands() -> str:
    """Return every command with its arguments and options, as ``--help`` has them."""
    root = typer.main.get_command(app)
    lines = ["# Commands", "", root.help or "", "", ENDS, ""]
    lines += _options(root)
    for name, command in sorted(root.commands.items()):
        lines += [f"## poolscope {name}", "", command.help or "", "", "```text", _usage(name, command), "```", ""]
        lines += _options(command)
    return "\n".join(lines)


def _usage(name: str, command: Any) -> str:
    context = command.context_class(command, info_name=f"poolscope {name}")
    return " ".join([f"poolscope {name}", *command.collect_usage_pieces(context)])


def _options(command: Any) -> list[str]:
    lines = ["| argument | meaning | default |", "|---|---|---|"]
    for parameter in command.params:
        if parameter.name == "help":
            continue
        option = parameter.param_type_name == "option"
        names = parameter.opts if option else [parameter.metavar or parameter.name.upper()]
        default = "" if parameter.default in (None, False, ()) else f"`{parameter.default}`"
        lines.append(
            f"| {', '.join(f'`{name}`' for name in names)} "
            f"| {(parameter.help or '').replace('|', chr(92) + '|')} "
            f"| {'required' if parameter.required else default} |"
        )
    return [*lines, ""] if len(lines) > 2 else []


def glossary() -> str:
    """Return the glossary of the HTML reports."""
    lines = [
        "# Glossary",
        "",
        TERMS,
        "",
        "```{glossary}",
    ]
    for word, meaning in MEANINGS.items():
        lines += [word, f"  {meaning}", ""]
    return "\n".join([*lines[:-1], "```", ""])


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", nargs="?", type=Path, default=DOCS / "api")
    write(parser.parse_args().folder)
