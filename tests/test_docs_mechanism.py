"""docs/guides/add-a-mechanism.md runs as it stands, block after block, and is as short as it says."""

import re
from pathlib import Path

import numpy as np
import pytest

from poolscope.scenario.scenario import parse

PAGE = (Path(__file__).parent.parent / "docs" / "guides" / "add-a-mechanism.md").read_text()
BLOCKS = re.findall(r"```python\n(.*?)```", PAGE, flags=re.DOTALL)


@pytest.fixture(scope="module")
def world():
    """The names of all blocks, which follow each other, and what each printed."""
    names, printed = {}, []
    for block in BLOCKS:
        lines = []
        names["print"] = lambda *words, lines=lines: lines.append(" ".join(map(str, words)))
        exec(compile(block, "add-a-mechanism.md", "exec"), names)
        printed.append(lines)
    return names, printed


def test_the_walk_is_thirty_lines():
    assert len([line for line in BLOCKS[0].splitlines() if line.strip()]) <= 30


def test_the_game_is_played(world):
    _, (game, *_) = world
    assert [line.split(" AUC")[0] for line in game] == ["strong 10", "strong 40", "non-private 10", "non-private 40"]
    auc_pn = [float(re.search(r"AUC ([0-9.]+)", line)[1]) for line in game]
    assert 1 / 3 < auc_pn[0] < auc_pn[1] < auc_pn[3]


def test_the_promise_is_kept(world):
    _, (_, _, verdict, _) = world
    assert verdict[0].startswith("True")


def test_the_estimated_channel_shows_its_uncertainty(world):
    names, (_, _, _, lines) = world
    assert len(lines) == 5
    truth, channel = names["nearby"].mechanism.distribution, names["channel"]
    z = (channel.matrix - truth) / channel.errors
    assert np.mean(np.abs(z) < 2) > 0.9
    assert np.all(names["low"] <= names["high"])


@pytest.mark.parametrize("block", re.findall(r"```toml\n(.*?)```", PAGE, flags=re.DOTALL))
def test_the_scenarios_are_scenarios(block):
    parsed = parse(f"[universe]\nsize = 4\npools = {{ a = 1, b = 1 }}\n{block}", name="page")
    assert parsed.mechanism.kind in ("channel", "empirical")
