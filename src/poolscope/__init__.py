"""What repeated reports under local differential privacy reveal about the person who sends them."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

#: Public name -> module that has it; imported where first used, so that ``poolscope --help`` is light.
_HOME = {
    "Adversary": "attack.adversary",
    "attack": "attack.adversary",
    "weak": "attack.adversary",
    "Behaviour": "world.behaviour",
    "Beta": "world.behaviour",
    "FunctionDensity": "world.behaviour",
    "StepDensity": "world.behaviour",
    "build_game": "scenario.build",
    "Verdict": "verbs.check.check",
    "check": "verbs.check.check",
    "Estimate": "reports.curator",
    "estimate": "reports.curator",
    "simulate_estimate": "reports.curator",
    "Dask": "base.dask",
    "Local": "base.engines",
    "InputError": "base.errors",
    "PoolscopeError": "base.errors",
    "Game": "game.game",
    "play": "game.game",
    "MECHANISMS": "mechanisms",
    "CMS": "mechanisms",
    "HCMS": "mechanisms",
    "Identity": "mechanisms",
    "adapt": "mechanisms",
    "blh": "mechanisms",
    "channel": "mechanisms",
    "cms": "mechanisms",
    "cms_no_hash": "mechanisms",
    "empirical": "mechanisms",
    "grr": "mechanisms",
    "hcms": "mechanisms",
    "hr": "mechanisms",
    "identity": "mechanisms",
    "memoised": "mechanisms",
    "olh": "mechanisms",
    "oue": "mechanisms",
    "rappor": "mechanisms",
    "spotme": "mechanisms",
    "ss": "mechanisms",
    "sue": "mechanisms",
    "the": "mechanisms",
    "attack_memoised": "attack.memory.groups",
    "learnt": "attack.posterior",
    "pool_posterior": "attack.posterior",
    "audit": "verbs.audit.run",
    "Scenario": "scenario.scenario",
    "load": "scenario.scenario",
    "summarise": "metrics.records",
    "Universe": "world.universe",
}

__all__ = ["__version__", *sorted(_HOME)]

if TYPE_CHECKING:
    from poolscope.attack.adversary import Adversary, attack, weak
    from poolscope.attack.memory.groups import attack_memoised
    from poolscope.attack.posterior import learnt, pool_posterior
    from poolscope.base.dask import Dask
    from poolscope.base.engines import Local
    from poolscope.base.errors import InputError, PoolscopeError
    from poolscope.game.game import Game, play
    from poolscope.mechanisms import MECHANISMS
    from poolscope.mechanisms.adapt import adapt
    from poolscope.mechanisms.channel import channel, empirical
    from poolscope.mechanisms.cms import CMS, cms, cms_no_hash
    from poolscope.mechanisms.devices import memoised
    from poolscope.mechanisms.grr import grr
    from poolscope.mechanisms.hadamard_response import hr
    from poolscope.mechanisms.hcms import HCMS, hcms
    from poolscope.mechanisms.identity import Identity, identity
    from poolscope.mechanisms.local_hashing import blh, olh
    from poolscope.mechanisms.oue import oue
    from poolscope.mechanisms.rappor import rappor
    from poolscope.mechanisms.spotme import spotme
    from poolscope.mechanisms.ss import ss
    from poolscope.mechanisms.sue import sue
    from poolscope.mechanisms.the import the
    from poolscope.metrics.records import summarise
    from poolscope.reports.curator import Estimate, estimate, simulate_estimate
    from poolscope.scenario.build import build_game
    from poolscope.scenario.scenario import Scenario, load
    from poolscope.verbs.audit.run import audit
    from poolscope.verbs.check.check import Verdict, check
    from poolscope.world.behaviour import Behaviour, Beta, FunctionDensity, StepDensity
    from poolscope.world.universe import Universe


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOME[name]}"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
