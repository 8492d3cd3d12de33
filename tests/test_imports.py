"""What a command need not import, it does not: imports take most of the time of a short one.

One process goes from what imports least to what imports most, so that it has no more than each of them needs.
"""

import json
import subprocess
import sys

import pytest
from cases.command_line import SMALL

STEPS = {
    "help": """
from typer.testing import CliRunner
from poolscope.cli.commands import app
assert CliRunner().invoke(app, ["--help"]).exit_code == 0
""",
    "scenario": "import poolscope.scenario.scenario",
    # the server listens before the game is imported, which takes most of the time of a start
    "explorer": """
from importlib.util import find_spec
if find_spec("uvicorn"):
    import poolscope.explore.server
""",
    "engines": "import poolscope.core.executors",
    # commands that change nothing do not load what writes TOML
    "text": "import poolscope; poolscope.load_scenario('apple-emojis').text",
    "page": "import poolscope.cli.audit, poolscope.html.audit",
    # importing Altair takes longer than drawing: only who asks for a chart waits for it
    "audit": """
sys.argv = ["poolscope", "audit", "small.toml", "--users", "20", "--out", "run"]
try:
    runpy.run_module("poolscope", run_name="__main__")
except SystemExit as end:
    assert not end.code
""",
    "chart": "poolscope.figures.trade_off_curves(poolscope.metrics.trade_off(1.0, 7).table().with_columns(n=7))",
}

PROGRAM = """
import json, runpy, sys
found = {}
for name, code in json.loads(sys.argv[1]).items():
    exec(code)
    found[name] = sorted(sys.modules)
with open("imported.json", "w", encoding="utf-8") as file:
    json.dump(found, file)
"""

UNNEEDED = {
    "help": {"numpy", "numba", "polars", "altair", "scipy", "pydantic", "tomlkit"},
    "scenario": {"numpy", "polars", "scipy"},
    "explorer": {"numba", "altair", "polars", "scipy", "poolscope.game.game"},
    "engines": {"distributed"},
    "text": {"tomlkit"},
    "page": {"altair", "vl_convert", "pandas", "scipy.stats", "scipy.optimize", "scipy.interpolate"},
    "audit": {"altair"},
}


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    return tmp_path_factory.mktemp("imports")


@pytest.fixture(scope="module")
def imported(place):
    """Modules that are there after each step."""
    (place / "small.toml").write_text(SMALL)
    command = [sys.executable, "-c", PROGRAM, json.dumps(STEPS)]
    done = subprocess.run(command, cwd=place, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    found = json.loads((place / "imported.json").read_text("utf-8"))
    return {name: set(modules) for name, modules in found.items()}


@pytest.mark.parametrize("step", UNNEEDED)
def test_nothing_unneeded_is_imported(imported, step):
    assert imported[step] & UNNEEDED[step] == set()


def test_what_needs_a_module_imports_it(imported, place):
    """The negative control: each step did what it says."""
    assert "poolscope.cli.commands" in imported["help"]
    assert "pydantic" in imported["scenario"] - imported["help"]
    assert "starlette" in imported["explorer"]
    assert "poolscope.core.executors" in imported["engines"]
    assert "poolscope.html.audit" in imported["page"] - imported["text"]
    assert "precision" in (place / "run" / "report.html").read_text("utf-8")
    assert "altair" in imported["chart"]
