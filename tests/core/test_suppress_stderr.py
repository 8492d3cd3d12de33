"""What a library prints of its own accord is kept from the terminal of a command, and from nobody else."""

import subprocess
import sys

import pytest

CODE = """
import os, sys
from poolscope.core import suppress_stderr

def panic(where):
    with suppress_stderr.suppressed(), suppress_stderr.suppressed():
        os.write(2, f"a library panics {where}\\n".encode())
        print("we speak", where, file=sys.stderr)
    os.write(2, f"afterwards {where}\\n".encode())

panic("in Python")
suppress_stderr.enable()
panic("in a command")
"""


def said_by(code):
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0
    return done.stderr.splitlines()


def test_only_a_command_hushes():
    assert said_by(CODE) == [
        "a library panics in Python",
        "we speak in Python",
        "afterwards in Python",
        "we speak in a command",
        "afterwards in a command",
    ]


ENDED = """
import os
from poolscope.core import suppress_stderr
from poolscope.core.executors import engine_named
suppress_stderr.enable()
with engine_named("dask"):
    pass
os.write(2, b"a process that starts late\\n")
try:
    with engine_named("dask"):
        raise KeyboardInterrupt
except KeyboardInterrupt:
    pass
os.write(2, b"one that starts after an interrupt\\n")
"""


@pytest.mark.cluster
def test_an_interrupted_engine_stays_quiet():
    """As the threads of a cluster go on starting processes until the command has exited."""
    assert said_by(ENDED) == ["a process that starts late"]
