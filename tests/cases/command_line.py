"""A small scenario and the command as a person types it."""

import os
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
reports = 1000
[attack]
observations = [3, 10]
"""


def poolscope(*arguments, cwd, **environment):
    return subprocess.run(
        [sys.executable, "-m", "poolscope", *map(str, arguments)],
        cwd=cwd,
        capture_output=True,
        text=True,
        env={**os.environ, "COLUMNS": "140", **environment},
        timeout=300,
    )
