"""Words and code agree: the README's lines run, commands and public names are documented."""

import inspect
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import typer

import poolscope
from poolscope.cli.commands import app
from poolscope.mechanisms import MECHANISMS

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text()


def blocks(language):
    return re.findall(rf"```{language}\n(.*?)```", README, flags=re.DOTALL)


def test_the_python_of_the_readme_runs(tmp_path):
    (code,) = blocks("python")
    assert len([line for line in code.splitlines() if line]) == 5
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "strong 180" in done.stdout


@pytest.mark.parametrize("command", sorted(typer.main.get_command(app).commands))
def test_every_command_is_in_the_readme(command):
    assert f"poolscope {command}" in README


@pytest.mark.parametrize("kind", sorted(MECHANISMS))
def test_every_mechanism_its_keys_and_its_columns_are_documented(kind):
    """In the table of mechanisms; a sketch's keys may stand in the row of another."""
    page = (ROOT / "docs" / "formats.md").read_text()
    (row,) = re.findall(rf"(?m)^\| `{kind}` \|.*$", page)
    told = set(re.findall(r"`(\w+)`", row))
    for other in re.findall(r"as `(\w+)`", row):
        told |= set(re.findall(r"`(\w+)`", re.findall(rf"(?m)^\| `{other}` \|.*$", page)[0]))
    keys = set(inspect.signature(MECHANISMS[kind]).parameters) - {"universe"}
    assert keys <= told, keys - told
    universe = 4
    files = {"matrix": np.full((universe, 2), 0.5), "samples": np.array([[z, 0] for z in range(universe)])}
    given = {"epsilon": 1.0, "m": 8, "hashes": 2, **files}
    made = MECHANISMS[kind](universe=universe, **{key: given[key] for key in keys & set(given)})
    assert set(made.report_columns) <= told


def test_public_names_exist_and_are_listed():
    for name in poolscope.__all__:
        assert getattr(poolscope, name) is not None
        assert name in dir(poolscope)
    with pytest.raises(AttributeError):
        poolscope.nothing  # noqa: B018


def test_no_module_is_too_long_or_called_utils():
    for path in (ROOT / "src").rglob("*.py"):
        assert path.name != "utils.py"
        assert len(path.read_text().splitlines()) <= 400, path
