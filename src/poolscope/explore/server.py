"""Serve the explorer on this machine only, and open the browser.

Every URL begins with a secret token. Requests with another host name or from another origin are refused, so that no
other site can send requests through the user's browser.
"""

from __future__ import annotations

import json
import secrets
import shlex
import socket
import threading
import webbrowser
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from importlib import resources
from pathlib import Path
from typing import Any

from anyio import CapacityLimiter, to_thread
from markupsafe import Markup
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, PlainTextResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from poolscope import __version__
from poolscope.core.errors import InputError, PoolscopeError
from poolscope.core.files import json_safe
from poolscope.core.tables.reading import ENDINGS
from poolscope.explore import view
from poolscope.explore.answers import Games, Sample, Stoppable, answers, side_by_side
from poolscope.explore.one_user import user_history
from poolscope.explore.settings import Scenarios, Setting, controls, setting_text
from poolscope.explore.streams import RETRY_AFTER, AllStreamsBusy, Streams
from poolscope.explore.user_table import UserTable, users_of_posteriors, users_of_run
from poolscope.html.render import javascript, render
from poolscope.inference.thresholds import in_percent
from poolscope.scenario.collection_tables import several_collections
from poolscope.scenario.scenario import load_scenario

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

FIRST = "apple-emojis"
"""Default scenario."""

MAX_COMPARED = 4
"""Largest number of compared settings."""

MAX_REQUESTS = 8
"""Largest number of concurrent requests, besides streams."""


@dataclass(kw_only=True)
class Explorer:
    """The state of the explorer between requests."""

    shelf: Scenarios
    people: UserTable | None = None
    seed: int = 0
    games: Games = field(default_factory=Games)
    streams: Streams = field(default_factory=Streams)
    requests: CapacityLimiter = field(default_factory=lambda: CapacityLimiter(MAX_REQUESTS))

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
    ways: dict[str, Callable[[Explorer, Request], Response]] = {
        "": _page,
        "vega.js": _bundle,
        "explore.js": _script,
        "explore.css": _style,
        "controls": _controls,
        "answers": _answers,
        "comparison": _comparison,
        "story": _user_history,
        "toml": _toml,
        "people": _people,
        "growth": _growth,
    }

    def route(path: str, way: Callable[[Explorer, Request], Response]) -> Route:
        async def endpoint(request: Request) -> Response:
            try:
                response = await to_thread.run_sync(way, explorer, request, limiter=explorer.requests)
            except AllStreamsBusy as error:
                response = JSONResponse({"error": str(error)}, 503, headers={"Retry-After": str(RETRY_AFTER)})
            except PoolscopeError as error:
                response = JSONResponse({"error": str(error)}, status_code=400)
            response.headers.update(HEADERS)
            return response

        return Route(f"/{token}/{path}", endpoint, methods=["GET"])

    return Guarded(Starlette(routes=[route(path, way) for path, way in ways.items()]), token, port)


def _page(explorer: Explorer, _: Request) -> Response:
    people = explorer.people
    start = {
        "scenarios": explorer.shelf.names,
        "scenario": explorer.start,
        "seed": explorer.seed,
        "compared": view.COMPARED,
        "max_compared": MAX_COMPARED,
        "people": people and people.name,
    }
    text = json.dumps(start, ensure_ascii=True).replace("<", "\\u003c")
    return HTMLResponse(render("explore.html.j2", start=Markup(text), version=__version__))


def _bundle(_: Explorer, __: Request) -> Response:
    return Response(javascript(), media_type="text/javascript")


def _script(_: Explorer, __: Request) -> Response:
    return Response("\n".join(map(_template, ("charts.js", "tables.js", "explore.js"))), media_type="text/javascript")


def _style(_: Explorer, __: Request) -> Response:
    return Response("\n".join(map(_template, ("report.css", "explore.css"))), media_type="text/css")


def _template(name: str) -> str:
    return (resources.files("poolscope.html") / "templates" / name).read_text("utf-8")


def _controls(explorer: Explorer, request: Request) -> Response:
    scenario = explorer.shelf.scenario(request.query_params.get("scenario", ""))
    about = {"name": scenario.name, "title": scenario.title or scenario.name}
    return JSONResponse(about | {"controls": controls(scenario), "files": scenario.named_files})


def _answers(explorer: Explorer, request: Request) -> Response:
    setting = _settings(request)[0]

    def found(engine: Stoppable) -> Iterator[dict[str, Any]]:
        scenario, n = explorer.shelf.played(setting)
        for answer in answers(scenario, n, setting.seed, explorer.games, engine):
            yield view.answer(answer) | {"command": _command(explorer, setting, answer.users)}
            # figures after the numbers, which are faster
            yield {"pictures": view.pictures(answer)}

    return explorer.streams.open(found)


def _comparison(explorer: Explorer, request: Request) -> Response:
    settings = _settings(request)
    if len(settings) > MAX_COMPARED:
        raise InputError(f"must be at most {MAX_COMPARED}", value=len(settings), place="setting")

    def found(engine: Stoppable) -> Iterator[dict[str, Any]]:
        scenarios = [(*explorer.shelf.played(setting), setting.seed) for setting in settings]
        names = [setting_text(made[0], setting.changes) for made, setting in zip(scenarios, settings, strict=True)]
        for place, answer in side_by_side(scenarios, explorer.games, engine):
            yield {"place": place, "name": names[place], **view.compared(answer)}

    return explorer.streams.open(found)


def _user_history(explorer: Explorer, request: Request) -> Response:
    setting, asked = _settings(request)[0], request.query_params
    if not asked.get("user", "").isdecimal():
        raise InputError("must be a whole number", value=asked.get("user"), place="user")
    scenario, n = explorer.shelf.played(setting)
    game, waiting = explorer.games.without_pending_estimates(scenario, setting.seed)
    if asked.get("adversary") in waiting or not game.adversaries:
        game = explorer.games.complete(scenario, setting.seed, Stoppable())
    facts = user_history(game, int(asked["user"]), setting.seed, asked.get("adversary"), n)
    return JSONResponse(view.story(facts) | {"adversaries": [a.name for a in scenario.adversaries]})


def _toml(explorer: Explorer, request: Request) -> Response:
    setting = _settings(request)[0]
    return PlainTextResponse(explorer.shelf.changed(setting).text)


def _people(explorer: Explorer, _: Request) -> Response:
    people = explorer.people
    if people is None:
        raise InputError("neither a run nor posteriors are open")
    scenario = people.scenario
    return JSONResponse(
        {
            "users": people.users,
            "exposed_at": people.exposed_at and in_percent(people.exposed_at),
            "columns": people.rows.columns,
            "rows": json_safe(people.rows.rows()),
            "scenario": scenario and scenario.name,
        }
    )


def _growth(explorer: Explorer, request: Request) -> Response:
    people, row = explorer.people, request.query_params.get("row", "")
    if people is None or not row.isdecimal() or int(row) >= people.rows.height:
        raise InputError("there is no such row", value=row, place="row")
    return JSONResponse(view.growth(people.growth(people.rows["user"][int(row)])))


def _settings(request: Request) -> list[Setting]:
    found = [Setting.from_json(text) for text in request.query_params.getlist("setting")]
    if not found:
        raise InputError("is missing", place="setting")
    return found


def _command(explorer: Explorer, setting: Setting, users: int) -> str:
    """Return the command that reproduces a setting; a changed scenario must be saved as a file first."""
    scenario = explorer.shelf.scenario(setting.scenario)
    file = f"{scenario.name}-explored.toml" if setting.changes else scenario.file
    return f"poolscope audit {shlex.quote(file)} --users {users} --seed {setting.seed}"


MISSING = "the explorer needs starlette and uvicorn; install them with: pip install 'poolscope[explore]'"

LEAVING = 1
"""Seconds that open responses have at shutdown."""

try:
    import uvicorn

    from poolscope.explore import view
except ImportError as error:
    raise PoolscopeError(MISSING) from error


def explorer_of(what: str | None, seed: int) -> Explorer:
    """Return the explorer of a scenario, a run's folder, a file of posteriors, or the built-in scenarios."""
    if what is None:
        return Explorer(shelf=Scenarios(), seed=seed)
    path = Path(what)
    if path.is_dir():
        people = users_of_run(path)
        return Explorer(shelf=Scenarios(people.scenario), people=people, seed=people.seed)
    if path.suffix.lower() in ENDINGS:
        return Explorer(shelf=Scenarios(), people=users_of_posteriors(path), seed=seed)
    found = load_scenario(what)
    if found.collections:
        raise several_collections(found.file)
    return Explorer(shelf=Scenarios(found), seed=seed)


def explore(
    what: str | None = None,
    *,
    port: int = 0,
    browser: bool = True,
    seed: int = 0,
    opened: Callable[[str], None] = lambda address: None,
) -> None:
    """Serve the explorer until the process is interrupted; call `opened` with its URL once it listens."""
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
    """Prepare what the first answer needs: kernels, libraries, JavaScript."""
    with suppress(PoolscopeError):
        javascript()
        scenario, n = explorer.shelf.played(Setting(scenario=explorer.start, seed=explorer.seed))
        game, _ = explorer.games.without_pending_estimates(scenario, explorer.seed)
        sample = Sample(game, n, explorer.seed, Stoppable())
        sample.grow(sample.sizes[0])
        view.pictures(sample.answer())


def _listening(port: int) -> socket.socket:
    sock = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    try:
        sock.bind(("127.0.0.1", port))
    except (OSError, OverflowError) as error:
        sock.close()
        why = getattr(error, "strerror", None) or str(error)
        raise InputError(f"cannot be listened on: {why}", value=port, place="port", remedy="take another") from None
    return sock
