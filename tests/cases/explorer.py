"""An explorer that runs in a thread, and a small scenario whose names are hostile."""

from __future__ import annotations

import json
import socket
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
from contextlib import contextmanager

TOKEN = "a-token"

#: Each would set `caught` if it were run, or turn the text after it.
HOSTILE = (
    "</script><script>caught=1</script>",
    "<img src=x onerror=caught=1>",
    "\u202egnol yrev",
    "javascript:caught=1",
)

SMALL = f"""
title = {json.dumps(HOSTILE[0])}
[universe]
size = 60
pools = {{ {", ".join(f"{json.dumps(name)} = 12" for name in HOSTILE)} }}
[popularity]
kind = "zipf"
exponent = 1.0
[mechanism]
kind = "grr"
epsilon = 3
[users]
count = 100
[[adversary]]
name = "weak"
popularity = "uniform"
[[adversary]]
name = {json.dumps(HOSTILE[0])}
popularity = "estimated"
estimate_from = 20_000
[attack]
estimates = 5
observations = [5, 20]
"""


def small(folder):
    """The scenario's file."""
    path = folder / "small.toml"
    path.write_text(SMALL, encoding="utf-8")
    return path


@contextmanager
def serving(explorer):
    """The address of a running server."""
    import uvicorn

    from poolscope.explore.server import application

    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        port = sock.getsockname()[1]
        config = uvicorn.Config(application(explorer, TOKEN, port), log_level="critical", timeout_graceful_shutdown=1)
        server = uvicorn.Server(config)
        thread = threading.Thread(target=server.run, kwargs={"sockets": [sock]}, daemon=True)
        thread.start()
        while not server.started:
            time.sleep(0.01)
        yield f"http://127.0.0.1:{port}/{TOKEN}/"
        explorer.close()
        server.should_exit = True
        thread.join(10)


def fetched(address, headers=None):
    """Status, headers and text of what an address answers."""
    request = urllib.request.Request(address, headers=headers or {})
    try:
        with urllib.request.urlopen(request, timeout=60) as response:
            return response.status, response.headers, response.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.headers, error.read().decode()


def query(what, *settings, **more):
    """The part of an address that asks for something of settings."""
    asked = [("setting", json.dumps(setting)) for setting in settings] + list(more.items())
    return f"{what}?{urllib.parse.urlencode(asked)}"


def events(text):
    """The data of the plain events of a stream, and whether it came to its end."""
    data = [json.loads(part[6:]) for part in text.split("\n\n") if part.startswith("data: ")]
    return data, "event: done" in text
