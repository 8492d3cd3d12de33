"""What repeated reports under local differential privacy reveal about the person who sends them."""

from typing import TYPE_CHECKING

__version__ = "0.1.0"

__all__ = [
    "Adversary",
    "Advice",
    "Attack",
    "Behavior",
    "BehaviorPosterior",
    "Change",
    "CollectionsAdvice",
    "Comparison",
    "Dask",
    "Device",
    "Estimated",
    "Extracted",
    "Frequencies",
    "Game",
    "Inferred",
    "InputError",
    "Inspection",
    "Local",
    "Mechanism",
    "Obfuscated",
    "PoolscopeError",
    "Population",
    "Progress",
    "Provenance",
    "Reproduction",
    "Scenario",
    "Simulated",
    "SimulatedTruth",
    "Summary",
    "Sweep",
    "Universe",
    "Verdict",
    "__version__",
    "advise",
    "attack",
    "attack_collections",
    "attacks",
    "audit",
    "behavior_posterior",
    "check",
    "compare",
    "estimate",
    "figures",
    "fit",
    "frequencies",
    "inspect",
    "joint_posterior",
    "load_scenario",
    "make_traces",
    "mechanisms",
    "metrics",
    "obfuscate",
    "outcomes_of",
    "play",
    "popularity",
    "posterior",
    "posterior_of_likelihood",
    "priors",
    "provenance",
    "random",
    "reproduce",
    "simulate",
    "summarize",
    "sweep",
]

if TYPE_CHECKING:
    from poolscope import figures, mechanisms, metrics
    from poolscope.core import keyed_random as random
    from poolscope.core.dask import Dask
    from poolscope.core.errors import InputError, PoolscopeError
    from poolscope.core.executors import Local
    from poolscope.core.progress import Progress
    from poolscope.devices.protocols import Device
    from poolscope.game.game import Game, play
    from poolscope.game.outcomes import outcomes_of
    from poolscope.game.users import Simulated, SimulatedTruth, simulate
    from poolscope.html.workflows.advise import advise
    from poolscope.html.workflows.audit import audit
    from poolscope.html.workflows.compare import compare
    from poolscope.inference import attacks
    from poolscope.inference.adversary import Adversary
    from poolscope.inference.attack import posterior
    from poolscope.inference.custom import Attack
    from poolscope.inference.joint import joint_posterior
    from poolscope.inference.posterior import BehaviorPosterior, behavior_posterior, posterior_of_likelihood
    from poolscope.mechanisms.protocols import Mechanism
    from poolscope.metrics.provenance import Provenance, provenance
    from poolscope.metrics.records import summarize
    from poolscope.paper.reproduce import reproduce
    from poolscope.paper.runner import Reproduction
    from poolscope.population import popularity, priors
    from poolscope.population.behavior import Behavior, Change
    from poolscope.population.population import Population
    from poolscope.population.universe import Universe
    from poolscope.reports.estimators import Frequencies
    from poolscope.reports.frequencies import frequencies
    from poolscope.scenario.scenario import Scenario, load_scenario
    from poolscope.workflows.advise.collection_records import CollectionsAdvice
    from poolscope.workflows.advise.records import Advice
    from poolscope.workflows.attack.attack import Inferred, attack
    from poolscope.workflows.attack.collections import attack_collections
    from poolscope.workflows.attack.inspection import Inspection, inspect
    from poolscope.workflows.audit.run_folder import Summary
    from poolscope.workflows.check.check import check
    from poolscope.workflows.check.verdict import Verdict
    from poolscope.workflows.compare import Comparison
    from poolscope.workflows.estimate import Estimated, estimate
    from poolscope.workflows.fit import fit
    from poolscope.workflows.obfuscate import Obfuscated, obfuscate
    from poolscope.workflows.sweep import Sweep, sweep
    from poolscope.workflows.traces.extract import Extracted, make_traces
else:
    from importlib import import_module

    #: Where each public name is, imported where first used, so that ``poolscope --help`` is light.
    _MODULES = {
        # what the commands do
        "advise": "html.workflows.advise",
        "attack": "workflows.attack.attack",
        "attack_collections": "workflows.attack.collections",
        "audit": "html.workflows.audit",
        "check": "workflows.check.check",
        "compare": "html.workflows.compare",
        "estimate": "workflows.estimate",
        "inspect": "workflows.attack.inspection",
        "fit": "workflows.fit",
        "make_traces": "workflows.traces.extract",
        "obfuscate": "workflows.obfuscate",
        "reproduce": "paper.reproduce",
        "sweep": "workflows.sweep",
        # the same on arrays
        "behavior_posterior": "inference.posterior",
        "frequencies": "reports.frequencies",
        "outcomes_of": "game.outcomes",
        "joint_posterior": "inference.joint",
        "play": "game.game",
        "posterior": "inference.attack",
        "posterior_of_likelihood": "inference.posterior",
        "provenance": "metrics.provenance",
        "simulate": "game.users",
        "summarize": "metrics.records",
        # what they return
        "Advice": "workflows.advise.records",
        "CollectionsAdvice": "workflows.advise.collection_records",
        "Comparison": "workflows.compare",
        "Estimated": "workflows.estimate",
        "Extracted": "workflows.traces.extract",
        "Frequencies": "reports.estimators",
        "Inferred": "workflows.attack.attack",
        "Inspection": "workflows.attack.inspection",
        "BehaviorPosterior": "inference.posterior",
        "Obfuscated": "workflows.obfuscate",
        "Provenance": "metrics.provenance",
        "Reproduction": "paper.runner",
        "Simulated": "game.users",
        "SimulatedTruth": "game.users",
        "Summary": "workflows.audit.run_folder",
        "Sweep": "workflows.sweep",
        "Verdict": "workflows.check.verdict",
        # what they are made of
        "Adversary": "inference.adversary",
        "Attack": "inference.custom",
        "Behavior": "population.behavior",
        "Change": "population.behavior",
        "Device": "devices.protocols",
        "Game": "game.game",
        "Mechanism": "mechanisms.protocols",
        "Population": "population.population",
        "Scenario": "scenario.scenario",
        "Universe": "population.universe",
        "load_scenario": "scenario.scenario",
        # where they run, what they tell, and how they fail
        "Dask": "core.dask",
        "InputError": "core.errors",
        "Local": "core.executors",
        "PoolscopeError": "core.errors",
        "Progress": "core.progress",
    }

    #: Namespace -> the module that it is.
    _NAMESPACES = {
        "attacks": "inference.attacks",
        "priors": "population.priors",
        "figures": "figures",
        "mechanisms": "mechanisms",
        "metrics": "metrics",
        "popularity": "population.popularity",
        "random": "core.keyed_random",
    }

    def __getattr__(name):
        if name in _NAMESPACES:
            return import_module(f"poolscope.{_NAMESPACES[name]}")
        if name in _MODULES:
            return getattr(import_module(f"poolscope.{_MODULES[name]}"), name)
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

    def __dir__():
        return __all__
