"""Opens the explorer: a server on this machine only, and the browser at its address."""

from __future__ import annotations

import secrets
import socket
import threading
import webbrowser
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from poolscope.core.errors import InputError, PoolscopeError
from poolscope.core.tables.reading import ENDINGS
from poolscope.html.bundle import javascript
from poolscope.scenario.scenario import load_scenario
from poolscope.workflows.explore.answers import Crowd, Stoppable
from poolscope.workflows.explore.people import people_of_posteriors, people_of_run
from poolscope.workflows.explore.settings import Setting, Shelf

MISSING = "the explorer needs starlette and uvicorn; install them with: pip install 'poolscope[explore]'"

LEAVING = 1
"""Seconds that open answers have when the explorer ends."""

try:
    import uvicorn

    from poolscope.html.explore import shown
    from poolscope.html.explore.app import Explorer, application
except ImportError as error:
    raise PoolscopeError(MISSING) from error


def explorer_of(what: str | None, seed: int) -> Explorer:
    """What is to be explored: a scenario, a run's folder, a file of posteriors, or the built-in scenarios."""
    if what is None:
        return Explorer(shelf=Shelf(), seed=seed)
    path = Path(what)
    if path.is_dir():
        people = people_of_run(path)
        return Explorer(shelf=Shelf(people.scenario), people=people, seed=people.seed)
    if path.suffix.lower() in ENDINGS:
        return Explorer(shelf=Shelf(), people=people_of_posteriors(path), seed=seed)
    return Explorer(shelf=Shelf(load_scenario(what)), seed=seed)


def explore(
    what: str | None = None,
    *,
    port: int = 0,
    browser: bool = True,
    seed: int = 0,
    opened: Callable[[str], None] = lambda address: None,
) -> None:
    """Serve the explorer until the process is asked to end; `opened` gets its address once it can be asked there."""
    explorer = explorer_of(what, seed)
    with _listening(port) as sock:
        bound, token = sock.getsockname()[1], secrets.token_urlsafe(24)
        address = f"http://127.0.0.1:{bound}/{token}/"
        app = application(explorer, token, bound)
        config = uvicorn.Config(app, log_level="critical", access_log=False, timeout_graceful_shutdown=LEAVING)

        def ready() -> None:
            opened(address)
            threading.Thread(target=_warm, args=(explorer,), daemon=True).start()
            if browser:
                threading.Thread(target=webbrowser.open, args=(address,), daemon=True).start()

        # the server ends by itself when it is asked to; then the signal is raised once more
        with suppress(KeyboardInterrupt):
            Server(config, ready).run(sockets=[sock])
        explorer.close()


class Server(uvicorn.Server):
    """A server that says when it listens."""

    def __init__(self, config: uvicorn.Config, ready: Callable[[], None]) -> None:
        super().__init__(config)
        self._ready = ready

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Listen, and only then say so."""
        await super().startup(sockets)
        if self.started:
            self._ready()


def _warm(explorer: Explorer) -> None:
    """Have ready what the first answer would wait for: kernels, libraries, the JavaScript of the pictures."""
    with suppress(PoolscopeError):
        javascript()
        scenario, n = explorer.shelf.played(Setting(scenario=explorer.start, seed=explorer.seed))
        game, _ = explorer.games.at_once(scenario, explorer.seed)
        crowd = Crowd(game, n, explorer.seed, Stoppable())
        crowd.grow(crowd.sizes[0])
        shown.pictures(crowd.answer())


def _listening(port: int) -> socket.socket:
    sock = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    try:
        sock.bind(("127.0.0.1", port))
    except (OSError, OverflowError) as error:
        sock.close()
        why = getattr(error, "strerror", None) or str(error)
        raise InputError(f"cannot be listened on: {why}", value=port, place="port", remedy="take another") from None
    return sock
