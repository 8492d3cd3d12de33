"""The explorer listens before it says where, and plays for a bounded number of readers at a time."""

import json
import socket
import threading
import time
from contextlib import ExitStack
from urllib.parse import urlsplit

import pytest
from cases.explorer import TOKEN, fetched, query, serving, small

pytest.importorskip("uvicorn", reason="uvicorn is not installed: pip install '.[test]'")

from poolscope.core.machine import available_cores
from poolscope.explore import handlers, server
from poolscope.explore.server import explore, explorer_of
from poolscope.explore.streams import MAX_STREAMS, RETRY_AFTER

SETTING = {"scenario": "small", "changes": {}, "seed": 3}


@pytest.mark.parametrize("browser", [False, True])
def test_who_gets_the_address_can_ask(monkeypatch, browser):
    """At the moment when it is printed, and when the browser is opened."""
    found = []

    def ask(address):
        with socket.create_connection(("127.0.0.1", urlsplit(address).port), 5):
            found.append(address)

    def opened(address):
        ask(address)
        if not browser:
            raise KeyboardInterrupt  # which ends it

    def open_browser(address):
        ask(address)
        serving_now[0].should_exit = True

    serving_now, begin = [], server.Server.startup

    async def startup(self, sockets=None):
        serving_now.append(self)
        await begin(self, sockets)

    monkeypatch.setattr(server.Server, "startup", startup)
    monkeypatch.setattr(server, "_warm", lambda explorer: None)
    monkeypatch.setattr(server.webbrowser, "open", open_browser)
    explore(browser=browser, opened=opened)
    assert len(found) == 1 + browser
    assert found[0].startswith("http://127.0.0.1:")


@pytest.fixture
def gate():
    """Streams last until it is opened."""
    found = threading.Event()
    yield found
    found.set()


@pytest.fixture
def started():
    """Released by every thread of a stream that is worked on."""
    return threading.Semaphore(0)


@pytest.fixture
def address(tmp_path, monkeypatch, gate, started):
    """An explorer whose answers wait at the gate, each on threads of its own as a game does."""

    def held(scenario, n, seed, games, engine):
        for _ in engine.map(wait, range(engine.threads)):
            pass
        yield from ()

    def wait(_):
        started.release()
        gate.wait(30)

    monkeypatch.setattr(handlers, "answers", held)
    with serving(explorer_of(str(small(tmp_path)), 3)) as found:
        yield found


class Asked:
    """A request for a stream, whose answer is read as far as it has come."""

    def __init__(self, address):
        port = urlsplit(address).port
        self.socket = socket.create_connection(("127.0.0.1", port), 20)
        path = f"/{TOKEN}/{query('answers', SETTING)}"
        self.socket.sendall(f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n\r\n".encode())

    def head(self):
        text = b""
        while b"\r\n\r\n" not in text:
            text += self.socket.recv(4096)
        first, *rest = text.split(b"\r\n\r\n")[0].decode().lower().split("\r\n")
        return int(first.split()[1]), dict(line.split(": ", 1) for line in rest)


def status_within(address, wanted, seconds=20):
    """The last status of a plain request for a stream, until it is the wanted one."""
    end = time.monotonic() + seconds
    while (found := fetched(address + query("answers", SETTING))[0]) != wanted and time.monotonic() < end:
        time.sleep(0.05)
    return found


def test_sixty_streams_are_bounded(address, gate):
    """As many as are allowed are played for; the others are asked to come again, and can when there is room."""
    before = threading.active_count()
    with ExitStack() as open_ones:
        asked = [Asked(address) for _ in range(60)]
        for one in asked:
            open_ones.enter_context(one.socket)
        heads = [one.head() for one in asked]
        assert [status for status, _ in heads].count(200) == MAX_STREAMS
        refused = [headers for status, headers in heads if status != 200]
        assert {status for status, _ in heads} == {200, 503}
        assert {headers["retry-after"] for headers in refused} == {str(RETRY_AFTER)}
        more = threading.active_count() - before
        assert more <= MAX_STREAMS * (1 + available_cores()) + server.MAX_REQUESTS
        status, _, text = fetched(address + query("answers", SETTING))
        assert status == 503
        assert "busy" in json.loads(text)["error"]
        # other questions are answered meanwhile
        assert fetched(address + query("toml", SETTING))[0] == 200
        gate.set()
        assert status_within(address, 200) == 200


def test_work_that_was_left_counts_until_it_has_ended(address, gate, started):
    for _ in range(MAX_STREAMS):
        one = Asked(address)
        assert one.head()[0] == 200
        assert all(started.acquire(timeout=20) for _ in range(available_cores()))
        one.socket.close()
    # all readers are gone, their threads are not
    assert status_within(address, 200, seconds=0.5) == 503
    gate.set()
    assert status_within(address, 200) == 200
