"""Another processor rounds otherwise: how far outcomes may differ there, and what may not."""

import os
import subprocess
import sys

import numpy as np
import polars as pl
import pytest
from cases.command_line import SMALL

from poolscope.game.game import play
from poolscope.scenario.scenario import parse

#: What docs/guides/scale.md promises across processors and versions of the compiler.
TOLERANCE = 1e-10

PLAY = """
import sys
from poolscope.game.game import play
from poolscope.scenario.scenario import parse
play(parse(open(sys.argv[1]).read(), name="small").game(5), 60, 5).write_parquet(sys.argv[2])
"""


@pytest.mark.slow
def test_a_generic_processor_gives_the_same_outcomes_to_rounding(tmp_path):
    """Compiled without any instruction that not every processor has: no fused or wide arithmetic."""
    (tmp_path / "small.toml").write_text(SMALL)
    generic = {**os.environ, "NUMBA_CPU_NAME": "generic", "NUMBA_CPU_FEATURES": "", "NUMBA_CACHE_DIR": str(tmp_path)}
    subprocess.run([sys.executable, "-c", PLAY, "small.toml", "there.parquet"], cwd=tmp_path, env=generic, check=True)
    here, there = play(parse(SMALL, name="small").game(5), 60, 5), pl.read_parquet(tmp_path / "there.parquet")
    rounded = ["confidence", "posterior_true"]
    assert here.drop(rounded).cast(pl.String).equals(there.drop(rounded).cast(pl.String))
    np.testing.assert_allclose(here.select(rounded), there.select(rounded), atol=TOLERANCE, rtol=0)
