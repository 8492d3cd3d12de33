"""What the command line says of itself, and in which letters."""

import re
from pathlib import Path

import pytest
from cases.command_line import SMALL, poolscope
from cases.selection import mostly, slow
from typer.testing import CliRunner

from poolscope.cli.app import MECHANISMS, ORDER, _names
from poolscope.cli.commands import app
from poolscope.mechanisms import MECHANISMS as KNOWN

ROOT = Path(__file__).parents[2]
COMMANDS = [command.callback.__name__ for command in app.registered_commands]


def help_of(*command, width=60):
    found = CliRunner().invoke(app, [*command, "-h"], env={"COLUMNS": str(width)})
    assert found.exit_code == 0
    return found.stdout


def test_the_list_of_commands_is_not_cut():
    text = help_of()
    listed = re.findall(r"^  (\w+) ", text.partition("Commands:")[2], re.MULTILINE)
    assert listed == list(ORDER)
    assert sorted(listed) == sorted(COMMANDS)
    assert "..." not in text.partition("Commands:")[2]
    for name in COMMANDS:
        assert re.search(rf"^  {name} ", text, re.MULTILINE)


def test_the_changelog_says_which_commands_print_json():
    (without,) = re.findall(
        r"all commands but `(\w+)` and `(\w+)` have `--json`", (ROOT / "CHANGELOG.md").read_text("utf-8")
    )
    assert {name for name in COMMANDS if "--json" not in help_of(name)} == set(without)


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_its_example_and_its_defaults(name):
    text = help_of(name)
    assert re.search(rf"Example:\n +poolscope {name} ", text)
    assert "..." not in text.partition("Options:")[2].replace(",...", "")
    if "--seed" in text:
        assert "[default: 0]" in " ".join(text.split())


def test_the_examples_have_options_that_there_are():
    for name in COMMANDS:
        text = help_of(name, width=200)
        for option in re.findall(r"--[a-z]+", text.partition("Example:")[2]):
            assert option in text.partition("Example:")[0], (name, option)


def test_the_mechanisms_are_those_that_there_are():
    assert MECHANISMS.split(", ") == sorted(KNOWN)


def test_names_of_scenarios_are_completed():
    assert _names("apple-h") == ["apple-hcms", "apple-health"]


@pytest.mark.slow
@pytest.mark.parametrize("encoding", mostly(slow, ["cp1252", "ascii"], "ascii"))
def test_letters_that_are_lacking_are_written_plainly(tmp_path, encoding):
    (tmp_path / "small.toml").write_text(SMALL)
    asked = [
        "compare",
        "small.toml",
        "--mechanism",
        "identity",
        "--epsilon",
        "1",
        "--users",
        20,
        "--estimate-from",
        100,
    ]
    ran = poolscope(*asked, "--out", "out", cwd=tmp_path, PYTHONIOENCODING=encoding)
    assert ran.returncode == 0, ran.stderr
    assert ran.stderr == ""
    assert "eps = inf per report" in ran.stdout
    assert "?" not in ran.stdout
