"""What a library prints of its own accord is kept from the terminal of a command, and from nobody else."""

import subprocess
import sys

import pytest

CODE = """
import os, sys
from poolscope.core import suppress_stderr
if {enabled}:
    suppress_stderr.enable()
with suppress_stderr.suppressed(), suppress_stderr.suppressed():
    os.write(2, b"a library panics\\n")
    print("we speak", file=sys.stderr)
os.write(2, b"afterwards\\n")
"""


@pytest.mark.parametrize(("enabled", "heard"), [(True, False), (False, True)])
def test_only_a_command_hushes(enabled, heard):
    done = subprocess.run([sys.executable, "-c", CODE.format(enabled=enabled)], capture_output=True, text=True)
    assert ("a library panics" in done.stderr) is heard
    assert "we speak" in done.stderr
    assert "afterwards" in done.stderr


ENDED = """
import os
from poolscope.core import suppress_stderr
from poolscope.core.executors import engine_named
suppress_stderr.enable()
try:
    with engine_named("dask"):
        {inside}
except KeyboardInterrupt:
    pass
os.write(2, b"a process that starts late\\n")
"""


@pytest.mark.cluster
@pytest.mark.parametrize(("inside", "heard"), [("raise KeyboardInterrupt", False), ("pass", True)])
def test_an_interrupted_engine_stays_quiet(inside, heard):
    """As the threads of a cluster go on starting processes until the command has exited."""
    done = subprocess.run([sys.executable, "-c", ENDED.format(inside=inside)], capture_output=True, text=True)
    assert (done.returncode, "starts late" in done.stderr) == (0, heard)
