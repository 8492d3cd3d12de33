"""What engines owe to blocks, without processes: every result once, few in flight, one thread per block."""

from concurrent.futures import CancelledError

import pytest

from poolscope.core import executors
from poolscope.core.dask import MAX_RESENT, Dask
from poolscope.core.errors import PoolscopeError
from poolscope.core.executors import IN_FLIGHT, Local, on_worker


@pytest.mark.parametrize("threads", [1, 2, 3, 8])
@pytest.mark.parametrize("count", [0, 1, 7])
def test_threads_yield_every_result_once(threads, count):
    assert sorted(Local(threads=threads).map(lambda item: item * item, range(count))) == [i * i for i in range(count)]


def test_a_worker_runs_a_block_on_one_thread_and_adds_up_its_progress(monkeypatch):
    monkeypatch.setattr(executors, "available_cores", lambda: 5)

    def block(shared, item, engine, tick):
        tick(2.0)
        tick(0.5)
        return shared, item, engine.threads

    assert on_worker(block, "game", 3) == (("game", 3, 1), 2.5)


# Dask with futures of its own


@pytest.fixture(autouse=True)
def _installed():
    pytest.importorskip("distributed", reason="distributed is not installed: pip install '.[test]'")


class Task:
    """A future that its worker may lose."""

    def __init__(self, item, lost):
        self._item, self._lost = item, lost

    def result(self):
        if self._lost:
            raise CancelledError
        return self._item, 1.0


class Simulated(Dask):
    """Two workers, which lose the first tasks; one task finishes at a time."""

    workers = 2

    def __init__(self, losses):
        super().__init__(client=object())
        self.losses, self.most = losses, 0

    def _submit(self, function, shared, item):
        self.losses -= 1
        return Task(item, self.losses >= 0)

    def _finished(self, pending):
        self.most = max(self.most, len(list(pending)))
        return list(pending)[:1]


@pytest.mark.parametrize("losses", [0, 1, MAX_RESENT])
def test_every_block_is_returned_once_even_if_its_worker_dies(losses):
    engine = Simulated(losses)
    assert sorted(engine.tasks(None, None, range(20))) == list(range(20))
    assert engine.most == IN_FLIGHT * engine.workers


def test_workers_that_die_repeatedly_end_the_run():
    with pytest.raises(PoolscopeError, match="all workers died repeatedly"):
        list(Simulated(1000).tasks(None, None, range(20)))


class Client:
    """A client that records what it sends."""

    def __init__(self):
        self.sent = []

    def wait_for_workers(self, count, timeout):
        assert count == 1

    def scatter(self, shared, broadcast, hash):
        assert broadcast
        self.sent.append(shared)
        return shared


def test_shared_data_is_sent_once_for_each_game():
    engine = Dask(client=object())
    engine._client = Client()
    games = [["one"], ["other"]]
    for game in (games[0], games[0], games[1]):
        assert engine._shared(game) is game
    assert engine._client.sent == games
