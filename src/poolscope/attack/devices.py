"""What adversaries make of the reports of devices: here the kind of a device chooses the attack."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from poolscope.attack.adversary import Adversary
from poolscope.attack.fresh import OnFresh
from poolscope.attack.memory.posteriors import OnKept
from poolscope.attack.role import Attack
from poolscope.base.arrays import Floats, Integers
from poolscope.base.errors import InputError
from poolscope.mechanisms.devices import Device, Fresh, Memoised, RapporMemory
from poolscope.mechanisms.keeping import KeptFlips, KeptHash, KeptPositions, KeptResponse
from poolscope.mechanisms.role import Mechanism, Reports

#: Kind of a device -> the attack on it.
ATTACKS: Mapping[type, Callable[[Any], Attack]] = {
    Fresh: OnFresh,
    **dict.fromkeys((Memoised, RapporMemory, KeptResponse, KeptHash, KeptFlips, KeptPositions), OnKept),
}


def attack_on(device: Device) -> Attack:
    """The attack on a device."""
    if type(device) not in ATTACKS:
        known = ", ".join(kind.__name__ for kind in ATTACKS)
        raise InputError("must be a device that can be attacked", value=type(device).__name__, remedy=f"one of {known}")
    return ATTACKS[type(device)](device)


def posterior(
    device: Device | Mechanism,
    reports: Reports,
    adversary: Adversary,
    *,
    lengths: Integers | None = None,
    observations: Sequence[int] | None = None,
) -> Floats:
    """Posterior of one user, or of several whose reports follow each other, after every report or some of them.

    Parameters
    ----------
    device : what sent the reports; a mechanism stands for devices that draw every report anew. Where devices keep their
        answers, an adversary who knows of it (`knows_memory`) groups reports by the answer that they come from.
    lengths : (users,) reports of each user; one user where absent.
    observations : the report counts to look at; 0, 1, 2 and so on to the longest user's where absent. An adversary who
        groups reports attacks anew for each of them, which takes its time.

    Returns
    -------
    (rows, k) for one user, (users, rows, k) for several, a row for each report count. A user with fewer reports is
    scored on those there are.

    Examples
    --------
    >>> reports = mechanism.obfuscate(np.array([0, 0, 1, 0]), rng)
    >>> ps.posterior(mechanism, reports, strong).shape
    (5, 3)
    >>> ps.posterior(mechanism, reports, strong, observations=[0, 4])[1].round(3)
    array([0.853, 0.074, 0.074])
    """
    if observations is not None and min(observations, default=0) < 0:
        raise InputError("observations must be at least 0", value=list(observations))
    attack = attack_on(device if isinstance(device, Device) else Fresh(device))
    out = attack.posterior(reports, adversary, lengths, observations)
    return out[0] if lengths is None else out
