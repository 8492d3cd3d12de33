"""A small scenario and the command as a person types it."""

import io
import os
import re
import subprocess
import sys
import warnings
from contextlib import chdir, redirect_stderr, redirect_stdout
from subprocess import CompletedProcess
from unittest import mock

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
estimates = 5
observations = [3, 10]
"""

#: Two objects, so that posteriors are integrals.
COIN = """
title = "Two objects, a pool each"
[universe]
size = 2
pools = { heads = 1, tails = 1 }
[popularity]
kind = "uniform"
[mechanism]
kind = "grr"
epsilon = 1
[users]
count = 100
[[adversary]]
name = "oracle"
popularity = "true"
[attack]
observations = [2]
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


def poolscope(*arguments, cwd, memory=None, process=False, **environment):
    """Return the finished command; its lines of progress are left out of its error stream.

    It runs inside the test's own process, which has imported the package and compiled its kernels. It is a process of
    its own where `process` says so, where `memory` limits it, or where `environment` has more than a width.
    """
    if process or memory is not None or environment.keys() - {"COLUMNS"}:
        done = _in_a_process(arguments, cwd, memory, environment)
    else:
        done = _in_this_process(arguments, cwd, environment)
    done.stderr = PROGRESS.sub("", done.stderr)
    return done


def _in_a_process(arguments, cwd, memory, environment):
    command = ["-m", "poolscope"] if memory is None else ["-c", LIMITED, memory]
    return subprocess.run(
        [sys.executable, *map(str, [*command, *arguments])],
        cwd=cwd,
        capture_output=True,
        encoding=environment.get("PYTHONIOENCODING", "utf-8"),
        env={**os.environ, "COLUMNS": "140", **environment},
        timeout=300,
    )


def _in_this_process(arguments, cwd, environment):
    from poolscope.cli.commands import main

    asked = ["poolscope", *map(str, arguments)]
    out, err = (io.TextIOWrapper(io.BytesIO(), encoding="utf-8", write_through=True) for _ in range(2))
    variables = mock.patch.dict(os.environ, {"COLUMNS": "140", **environment})
    arguments = mock.patch.object(sys, "argv", asked)
    with chdir(cwd), variables, arguments, redirect_stdout(out), redirect_stderr(err), warnings.catch_warnings():
        # as Python itself is set, and not as pytest sets it
        warnings.resetwarnings()
        for quiet in (DeprecationWarning, PendingDeprecationWarning, ImportWarning, ResourceWarning):
            warnings.simplefilter("ignore", quiet)
        code = _exit_code(main)
    texts = (stream.buffer.getvalue().decode() for stream in (out, err))
    return CompletedProcess(asked, code, *texts)


def _exit_code(main):
    try:
        main()
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else int(end.code is not None)
    return 0
