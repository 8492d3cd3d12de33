"""The users that a game assumes, in words: what is found out hangs on them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from poolscope.population.densities import UNIFORM, Beta, Density

if TYPE_CHECKING:
    from poolscope.game.game import Game


def users_in_words(game: Game) -> str:
    """Who plays, as "users drawn with uniform interest and polarization"."""
    if game.recorded is not None:
        return "recorded users"
    own = game.behaviour
    words = f"users drawn with {_of(own.interest, 'interest')} and {_of(own.polarization, 'polarization')}"
    if own.interest == own.polarization:
        words = f"users drawn with {_of(own.interest, 'interest and polarization')}"
    prior = own.pool_prior(game.universe.k)
    if prior.min() < prior.max():
        words += f", pools preferred by {100 * prior.min():.2g} to {100 * prior.max():.2g} %"
    if own.none:
        words += f", {100 * own.none:.2g} % of them without a preferred pool"
    return words if game.sigma == 0 else f"{words}, tastes of their own (sigma {game.sigma:g})"


def _of(density: Density, what: str) -> str:
    if density == UNIFORM:
        return f"uniform {what}"
    return f"Beta({density.a:g}, {density.b:g}) {what}" if type(density) is Beta else f"{what} by a given density"
