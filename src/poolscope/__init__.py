"""What repeated reports under local differential privacy reveal about the person who sends them."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

#: Public name -> module that has it; imported where first used, so that ``poolscope --help`` is light.
_HOME = {
    # what the commands do
    "advise": "html.workflows",
    "attack": "workflows.attack.attack",
    "audit": "html.workflows",
    "check": "workflows.check.check",
    "compare": "html.workflows",
    "estimate": "workflows.estimate",
    "make_traces": "workflows.traces.extract",
    "obfuscate": "workflows.obfuscate",
    "reproduce": "paper.reproduce",
    # the same on arrays
    "behavior_posterior": "inference.posterior",
    "frequencies": "reports.frequencies",
    "play": "game.game",
    "posterior": "inference.attack",
    "posterior_of_likelihood": "inference.posterior",
    "summarize": "metrics.records",
    # what they are made of
    "Adversary": "inference.adversary",
    "Behavior": "population.behavior",
    "Game": "game.game",
    "Scenario": "scenario.scenario",
    "Universe": "population.universe",
    "load_scenario": "scenario.scenario",
    # where they run, what they tell, and how they fail
    "Dask": "core.dask",
    "Local": "core.executors",
    "Progress": "core.progress",
    "InputError": "core.errors",
    "PoolscopeError": "core.errors",
}

#: Namespace -> the module that it is.
_SPACES = {
    "priors": "population.priors",
    "figures": "figures",
    "mechanisms": "mechanisms",
    "metrics": "metrics",
    "popularity": "population.popularity",
}

__all__ = ["__version__", *sorted(_HOME), *sorted(_SPACES)]

if TYPE_CHECKING:
    from poolscope import figures, mechanisms, metrics
    from poolscope.core.dask import Dask
    from poolscope.core.errors import InputError, PoolscopeError
    from poolscope.core.executors import Local
    from poolscope.core.progress import Progress
    from poolscope.game.game import Game, play
    from poolscope.html.workflows import advise, audit, compare
    from poolscope.inference.adversary import Adversary
    from poolscope.inference.attack import posterior
    from poolscope.inference.posterior import behavior_posterior, posterior_of_likelihood
    from poolscope.metrics.records import summarize
    from poolscope.paper.reproduce import reproduce
    from poolscope.population import popularity, priors
    from poolscope.population.behavior import Behavior
    from poolscope.population.universe import Universe
    from poolscope.reports.frequencies import frequencies
    from poolscope.scenario.scenario import Scenario, load_scenario
    from poolscope.workflows.attack.attack import attack
    from poolscope.workflows.check.check import check
    from poolscope.workflows.estimate import estimate
    from poolscope.workflows.obfuscate import obfuscate
    from poolscope.workflows.traces.extract import make_traces


def __getattr__(name: str) -> Any:
    if name in _SPACES:
        return import_module(f"{__name__}.{_SPACES[name]}")
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOME[name]}"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
