"""Serve the explorer on this machine only, and open the browser.

Every URL begins with a secret token. Requests with another host name or from another origin are refused, so that no
other site can send requests through the user's browser.
"""

from __future__ import annotations

import secrets
import socket
import threading
import webbrowser
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote, unquote

from anyio import CapacityLimiter, to_thread
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from poolscope.core.errors import InputError, PoolscopeError
from poolscope.explore.settings import Scenarios
from poolscope.explore.streams import RETRY_AFTER, AllStreamsBusy, Streams
from poolscope.scenario.scenario import load_scenario

if TYPE_CHECKING:
    from poolscope.explore.answers import Games
    from poolscope.explore.options import OptionTables
    from poolscope.explore.user_table import UserTable

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src data: blob:; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
"""Vega needs inline styles; nothing else is inline, and nothing is loaded from elsewhere."""

HEADERS = {
    "Content-Security-Policy": POLICY,
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "Cache-Control": "no-store",
}

PATHS = (
    "",
    "vega.js",
    "explore.js",
    "explore.css",
    "controls",
    "answers",
    "options",
    "comparison",
    "story",
    "toml",
    "people",
    "growth",
)
"""What there is below the token."""

FIRST = "apple-emojis"
"""Default scenario."""

MAX_REQUESTS = 8
"""Largest number of concurrent requests, besides streams."""


@dataclass(kw_only=True)
class Explorer:
    """The state of the explorer between requests; `opened` is what it was opened with, for a link to it."""

    shelf: Scenarios
    people: UserTable | None = None
    seed: int = 0
    opened: str = ""
    streams: Streams = field(default_factory=Streams)
    requests: CapacityLimiter = field(default_factory=lambda: CapacityLimiter(MAX_REQUESTS))

    _games: Games | None = None
    _options: OptionTables | None = None
    _lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def games(self) -> Games:
        """Return the cached estimates."""
        from poolscope.explore.answers import Games

        with self._lock:
            self._games = self._games or Games()
            return self._games

    @property
    def options(self) -> OptionTables:
        """Return the cached tables of options."""
        from poolscope.explore.options import OptionTables

        games = self.games
        with self._lock:
            self._options = self._options or OptionTables(games)
            return self._options

    @property
    def start(self) -> str:
        """Return the scenario that the page opens with."""
        return self.shelf.given.name if self.shelf.given else FIRST

    def close(self) -> None:
        """Ask all tasks to stop."""
        self.streams.close()


class Guarded:
    """The application, restricted to requests of its own page."""

    def __init__(self, app: ASGIApp, token: str, port: int) -> None:
        self._app, self._prefix = app, f"/{token}/"
        self._hosts = {f"127.0.0.1:{port}", f"localhost:{port}"}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan" or (scope["type"] == "http" and self._allowed(Request(scope))):
            await self._app(scope, receive, send)
        else:
            await PlainTextResponse("forbidden\n", status_code=403, headers=HEADERS)(scope, receive, send)

    def _allowed(self, request: Request) -> bool:
        origin, site = request.headers.get("origin"), request.headers.get("sec-fetch-site", "none")
        return (
            request.headers.get("host") in self._hosts
            and (origin is None or origin in {f"http://{host}" for host in self._hosts})
            and site in ("none", "same-origin")
            and request.scope["path"].startswith(self._prefix)
        )


def application(explorer: Explorer, token: str, port: int) -> ASGIApp:
    """Return the application at http://127.0.0.1:port/token/."""

    def handle(path: str, request: Request) -> Response:
        # imported after the server listens: the page at once, the game in seconds
        from poolscope.explore.page import PARTS

        if path in PARTS:
            return PARTS[path](explorer, request)
        from poolscope.explore.handlers import HANDLERS

        return HANDLERS[path](explorer, request)

    def route(path: str) -> Route:
        async def endpoint(request: Request) -> Response:
            try:
                response = await to_thread.run_sync(handle, path, request, limiter=explorer.requests)
            except AllStreamsBusy as error:
                response = JSONResponse({"error": str(error)}, 503, headers={"Retry-After": str(RETRY_AFTER)})
            except PoolscopeError as error:
                response = JSONResponse({"error": str(error)}, status_code=400)
            response.headers.update(HEADERS)
            return response

        return Route(f"/{token}/{path}", endpoint, methods=["GET"])

    return Guarded(Starlette(routes=list(map(route, PATHS))), token, port)


MISSING = "the explorer needs starlette and uvicorn; install them with: pip install 'poolscope[explore]'"

LEAVING = 1
"""Seconds that open responses have at shutdown."""

try:
    import uvicorn
except ImportError as error:
    raise PoolscopeError(MISSING) from error


def split_link(what: str | None) -> tuple[str | None, str]:
    """Return what a link opens, and the state behind its # sign; a file may have such a name."""
    if what is None or "#" not in what or Path(what).exists():
        return what, ""
    name, _, state = what.partition("#")
    return name or None, state


def explorer_of(what: str | None, seed: int) -> Explorer:
    """Return the explorer of a scenario, a run's folder, a file of posteriors, or the built-in scenarios."""
    if what is None:
        return Explorer(shelf=Scenarios(), seed=seed)
    from poolscope.core.tables.reading import ENDINGS

    path = Path(what)
    if path.is_dir():
        from poolscope.explore.user_table import users_of_run

        people = users_of_run(path)
        return Explorer(shelf=Scenarios(people.scenario), people=people, seed=people.seed, opened=what)
    if path.suffix.lower() in ENDINGS:
        from poolscope.explore.user_table import users_of_posteriors

        return Explorer(shelf=Scenarios(), people=users_of_posteriors(path), seed=seed, opened=what)
    return Explorer(shelf=Scenarios(load_scenario(what)), seed=seed, opened=what)


def explore(
    what: str | None = None,
    *,
    port: int = 0,
    browser: bool = True,
    seed: int = 0,
    opened: Callable[[str], None] = lambda address: None,
) -> None:
    """Serve the explorer until the process is interrupted; call `opened` with its URL once it listens."""
    what, state = split_link(what)
    explorer = explorer_of(what, seed)
    with _listening(port) as sock:
        bound, token = sock.getsockname()[1], secrets.token_urlsafe(24)
        address = f"http://127.0.0.1:{bound}/{token}/" + (f"#{quote(unquote(state))}" if state else "")
        app = application(explorer, token, bound)
        config = uvicorn.Config(app, log_level="critical", access_log=False, timeout_graceful_shutdown=LEAVING)

        def ready() -> None:
            opened(address)
            threading.Thread(target=_warm, args=(explorer,), daemon=True).start()
            if browser:
                threading.Thread(target=webbrowser.open, args=(address,), daemon=True).start()

        # uvicorn shuts down on a signal and then raises it again
        with suppress(KeyboardInterrupt):
            Server(config, ready).run(sockets=[sock])
        explorer.close()


class Server(uvicorn.Server):
    """A server with a callback once it listens."""

    def __init__(self, config: uvicorn.Config, ready: Callable[[], None]) -> None:
        super().__init__(config)
        self._ready = ready

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Listen, then call back."""
        await super().startup(sockets)
        if self.started:
            self._ready()


def _warm(explorer: Explorer) -> None:
    """Prepare what the first answer needs."""
    from poolscope.explore.handlers import warm

    warm(explorer)


def _listening(port: int) -> socket.socket:
    sock = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    try:
        sock.bind(("127.0.0.1", port))
    except (OSError, OverflowError) as error:
        sock.close()
        why = getattr(error, "strerror", None) or str(error)
        raise InputError(f"cannot be listened on: {why}", value=port, place="port", remedy="take another") from None
    return sock
