"""Settings of every test: a busy machine is no failure, and no kernel is compiled twice."""

from __future__ import annotations

import os
from fnmatch import fnmatchcase
from pathlib import Path

# A thread of BLAS that waits for others spins: with a process of pytest-xdist on each core, small products take ten
# times as long. Processes that start later, workers and commands, inherit this.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import pytest
from hypothesis import HealthCheck, settings

settings.register_profile("any machine", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("any machine")

#: All tests of a run that names no files.
COLLECTED = pytest.StashKey()


def pytest_itemcollected(item):
    """Mark the cases of a parametrized test that `default_cases` does not name as slow."""
    patterns = [pattern for mark in item.iter_markers("default_cases") for pattern in mark.args]
    if patterns and not any(fnmatchcase(item.callspec.id, pattern) for pattern in patterns):
        item.add_marker("slow")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(session, config, items):
    """Keep every test of a run of all tests, marked or not, before the expression of `-m` leaves some out."""
    asked = {config.invocation_params.dir / path for path in config.args}
    left_out = config.getoption("ignore") or config.getoption("ignore_glob") or config.getoption("deselect")
    everything = asked == {Path(__file__).parent} and not left_out and not session.testsfailed
    config.stash[COLLECTED] = list(items) if everything else None


@pytest.fixture(scope="session")
def collected(pytestconfig):
    """Every test there is, where this run has collected them all, otherwise None."""
    return pytestconfig.stash[COLLECTED]


@pytest.fixture(scope="session", autouse=True)
def _shared_kernels(tmp_path_factory):
    """Share kernels between the processes of pytest-xdist, whose folders have one parent."""
    if "PYTEST_XDIST_WORKER" in os.environ:
        compile_once(tmp_path_factory.getbasetemp().parent / "kernels")


@pytest.fixture
def short_chains(monkeypatch):
    """Sample tables of responses with a fifteenth of the work: for tests that do not ask how small the error is."""
    monkeypatch.setattr("poolscope.inference.memoized.response_map_samplers.MAX_WORK", 4e6)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config, log):
    """Keep the tests of a file together, as their fixtures are the file's, and give an idle process work of another."""
    from xdist.scheduler import WorkStealingScheduling

    return WorkStealingScheduling(config, log)


def compile_once(folder):
    """Make processes that start without compiled kernels wait for each other's instead of compiling the same ones.

    Numba looks into its cache before it compiles: a process that has waited finds there what the other has compiled.
    """
    from filelock import FileLock
    from numba.core.compiler_lock import global_compiler_lock
    from numba.core.dispatcher import Dispatcher

    folder.mkdir(exist_ok=True)
    locks, compile_kernel = {}, Dispatcher.compile

    def compile_alone(self, signature):
        name = f"{self.py_func.__module__}.{self.py_func.__name__}"
        if not name.startswith("poolscope."):
            return compile_kernel(self, signature)
        # threads first, then processes; a kernel that calls itself holds its lock already
        with global_compiler_lock, locks.setdefault(name, FileLock(folder / f"{name}.lock")):
            return compile_kernel(self, signature)

    Dispatcher.compile = compile_alone
