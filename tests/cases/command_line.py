"""A small scenario and the command as a person types it."""

import os
import re
import subprocess
import sys

SMALL = """
title = "Small"
[universe]
size = 30
pools = { a = 5, b = 5, c = 5 }
[popularity]
kind = "zipf"
exponent = 1.2
[mechanism]
kind = "cms"
epsilon = 4
m = 32
hashes = 64
[users]
count = 200
[[adversary]]
name = "weak"
popularity = "uniform"
[[adversary]]
name = "strong"
popularity = "estimated"
estimate_from = 1000
[attack]
observations = [3, 10]
"""


#: The command in a process that may have so many bytes, as after `ulimit -v`.
LIMITED = """
import resource, sys
resource.setrlimit(resource.RLIMIT_AS, (int(sys.argv.pop(1)),) * 2)
from poolscope.cli.commands import main
main()
"""


#: What a command prints every half minute, which on a busy machine the smallest may take.
PROGRESS = re.compile(r"^poolscope: .*, \d+ s so far\n", re.MULTILINE)


def poolscope(*arguments, cwd, memory=None, **environment):
    """The finished command; its lines of progress are left out of its error stream."""
    command = ["-m", "poolscope"] if memory is None else ["-c", LIMITED, memory]
    done = subprocess.run(
        [sys.executable, *map(str, [*command, *arguments])],
        cwd=cwd,
        capture_output=True,
        encoding=environment.get("PYTHONIOENCODING", "utf-8"),
        env={**os.environ, "COLUMNS": "140", **environment},
        timeout=300,
    )
    done.stderr = PROGRESS.sub("", done.stderr)
    return done
