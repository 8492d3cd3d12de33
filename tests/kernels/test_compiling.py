"""When kernels are compiled, and where they are kept."""

import os
import subprocess
import sys

CALL = """
import warnings
warnings.simplefilter("error" if {strict} else "always")
{before}
import numpy as np
from poolscope.kernels.compiling import watched
told = []
with watched(lambda: told.append(1)):
    from poolscope.kernels.random import uniforms
    out = np.empty(1)
    uniforms(np.array([1], dtype=np.uint64), 0, out)
print(len(told), out[0])
"""

#: numba finds out whether a folder can be written by writing there.
READ_ONLY = """
import os, tempfile
first = tempfile.TemporaryFile
def refuse(*arguments, dir=None, **options):
    if "poolscope-kernels-" not in str(dir):
        raise OSError("read-only file system")
    return first(*arguments, dir=dir, **options)
tempfile.TemporaryFile = refuse
"""


def run(tmp_path, before="", strict=True):
    code = CALL.format(before=before, strict=strict)
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment, check=True)
    return done.stdout.split(), done.stderr


def test_compiling_is_told_once_after_an_install(tmp_path):
    (first, word), _ = run(tmp_path)
    (second, same), _ = run(tmp_path)
    assert int(first) >= 1
    assert (second, same) == ("0", word)


def test_where_nothing_can_be_kept_it_is_said_once(tmp_path):
    (compiled, word), said = run(tmp_path / "kept", READ_ONLY, strict=False)
    assert int(compiled) >= 1
    assert said.count("set NUMBA_CACHE_DIR to a folder that can be written") == 1
    assert run(tmp_path)[0][1] == word
