"""Answer the requests of the page about settings and users."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response

from poolscope.core.errors import InputError, PoolscopeError
from poolscope.core.files import json_safe
from poolscope.explore import view
from poolscope.explore.controls import collection_controls, controls
from poolscope.explore.growing import answers, first_sample, side_by_side
from poolscope.explore.joint_user import JointHistory, joint_user_history
from poolscope.explore.one_user import UserHistory, user_history
from poolscope.explore.options import SAME_EPSILON, OptionQuestion
from poolscope.explore.page import MAX_COMPARED
from poolscope.explore.server import Explorer
from poolscope.explore.settings import Setting, setting_text
from poolscope.explore.streams import Stoppable
from poolscope.html.render import javascript
from poolscope.inference.thresholds import in_percent


def _controls(explorer: Explorer, request: Request) -> Response:
    scenario = explorer.shelf.scenario(request.query_params.get("scenario", ""))
    shared, groups = collection_controls(scenario) if scenario.collections else (controls(scenario), [])
    return JSONResponse(
        {
            "name": scenario.name,
            "title": scenario.title or scenario.name,
            "controls": shared,
            "collections": groups,
            "files": scenario.named_files,
        }
    )


def _answers(explorer: Explorer, request: Request) -> Response:
    setting = _settings(request)[0]

    def found(engine: Stoppable) -> Iterator[dict[str, Any]]:
        scenario, n = explorer.shelf.played(setting)
        for answer in answers(scenario, n, setting.seed, explorer.games, engine):
            yield view.answer(answer) | {"command": _command(explorer, setting, answer.users)}
            # figures after the numbers, which are faster
            yield {"pictures": view.pictures(answer)}

    return explorer.streams.open(found)


def _options(explorer: Explorer, request: Request) -> Response:
    setting, asked = _settings(request)[0], request.query_params
    try:
        target = float(asked.get("target", ""))
    except ValueError:
        raise InputError("must be a number", value=asked.get("target"), place="target") from None

    def found(engine: Stoppable) -> Iterator[dict[str, Any]]:
        scenario, n = explorer.shelf.played(setting)
        same = asked.get("same", SAME_EPSILON)
        question = OptionQuestion(scenario=scenario, n=n, seed=setting.seed, target=target, same=same)
        for table in explorer.options.tables(question, engine):
            yield view.options(table)

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
    who = int(asked["user"]), setting.seed, asked.get("adversary"), n
    games = explorer.games
    if scenario.collections:
        joint, waiting = games.joint_without_pending_estimates(scenario, setting.seed)
        if asked.get("adversary") in waiting or not joint.adversaries:
            joint = games.joint_complete(scenario, setting.seed, Stoppable())
        facts: UserHistory | JointHistory = joint_user_history(joint, *who)
    else:
        game, waiting = games.without_pending_estimates(scenario, setting.seed)
        if asked.get("adversary") in waiting or not game.adversaries:
            game = games.complete(scenario, setting.seed, Stoppable())
        facts = user_history(game, *who)
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


def warm(explorer: Explorer) -> None:
    """Prepare what the first answer needs: kernels, libraries, JavaScript."""
    with suppress(PoolscopeError):
        javascript()
        scenario, n = explorer.shelf.played(Setting(scenario=explorer.start, seed=explorer.seed))
        sample, _ = first_sample(scenario, n, explorer.seed, explorer.games, Stoppable())
        sample.grow(sample.sizes[0])
        view.pictures(sample.answer())


HANDLERS: Mapping[str, Callable[[Explorer, Request], Response]] = {
    "controls": _controls,
    "answers": _answers,
    "options": _options,
    "comparison": _comparison,
    "story": _user_history,
    "toml": _toml,
    "people": _people,
    "growth": _growth,
}
"""The handler of each path."""
