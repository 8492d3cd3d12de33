"""What repeated reports under local differential privacy reveal about the person who sends them."""

import sys
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

#: Public name -> module that has it; imported where first used, so that ``poolscope --help`` is light.
_HOME = {
    # what the commands do
    "advise": "pages.verbs",
    "attack": "verbs.attack.attack",
    "audit": "pages.verbs",
    "check": "verbs.check.check",
    "compare": "pages.verbs",
    "estimate": "verbs.estimate",
    "make_traces": "verbs.traces.extract",
    "obfuscate": "verbs.obfuscate",
    "reproduce": "pages.verbs",
    # the same on arrays
    "behaviour_posterior": "attack.posterior",
    "frequencies": "reports.curator",
    "play": "game.game",
    "posterior": "attack.devices",
    "posterior_of_likelihood": "attack.posterior",
    "summarise": "metrics.records",
    # what they are made of
    "Adversary": "attack.adversary",
    "Behaviour": "world.behaviour",
    "Game": "game.game",
    "Scenario": "scenario.scenario",
    "Universe": "world.universe",
    "load_scenario": "scenario.scenario",
    # where they run, what they tell, and how they fail
    "Dask": "base.dask",
    "Local": "base.engines",
    "Progress": "base.progress",
    "InputError": "base.errors",
    "PoolscopeError": "base.errors",
}

#: Namespace -> the module that it is.
_SPACES = {
    "densities": "world.densities",
    "figures": "pages.figures",
    "mechanisms": "mechanisms",
    "metrics": "metrics",
    "popularity": "world.popularity",
}

__all__ = ["__version__", *sorted(_HOME), *sorted(_SPACES)]

if TYPE_CHECKING:
    from poolscope import mechanisms, metrics
    from poolscope.attack.adversary import Adversary
    from poolscope.attack.devices import posterior
    from poolscope.attack.posterior import behaviour_posterior, posterior_of_likelihood
    from poolscope.base.dask import Dask
    from poolscope.base.engines import Local
    from poolscope.base.errors import InputError, PoolscopeError
    from poolscope.base.progress import Progress
    from poolscope.game.game import Game, play
    from poolscope.metrics.records import summarise
    from poolscope.pages import figures
    from poolscope.pages.verbs import advise, audit, compare, reproduce
    from poolscope.reports.curator import frequencies
    from poolscope.scenario.scenario import Scenario, load_scenario
    from poolscope.verbs.attack.attack import attack
    from poolscope.verbs.check.check import check
    from poolscope.verbs.estimate import estimate
    from poolscope.verbs.obfuscate import obfuscate
    from poolscope.verbs.traces.extract import make_traces
    from poolscope.world import densities, popularity
    from poolscope.world.behaviour import Behaviour
    from poolscope.world.universe import Universe


def __getattr__(name: str) -> Any:
    if name in _SPACES:
        return import_module(f"{__name__}.{_SPACES[name]}")
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOME[name]}"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


class _Package(ModuleType):
    """`attack` is a verb here, and a room as well: the import system may not put the room in the verb's place."""

    @property
    def attack(self) -> Any:
        return __getattr__("attack")

    @attack.setter
    def attack(self, room: ModuleType) -> None:
        pass


sys.modules[__name__].__class__ = _Package
