"""Words and code agree: the README's lines run, commands and public names are documented."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
import typer

import poolscope
from poolscope.cli import app

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
