"""Posteriors from reports: the device determines the attack."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

from poolscope.core.arguments import check_integers
from poolscope.core.arrays import Floats, Integers
from poolscope.core.errors import InputError
from poolscope.devices.protocols import Device, Fresh, MemoizingDevice, SequentialDevice
from poolscope.inference.adversary import Adversary, check_adversary
from poolscope.inference.independent import DeviceAttack, IndependentReportsAttack, lengths_of
from poolscope.inference.memoized.attack import MemoizedReportsAttack
from poolscope.inference.sequential import SequentialReportsAttack
from poolscope.mechanisms.checking import checked_reports
from poolscope.mechanisms.custom import as_mechanism
from poolscope.mechanisms.protocols import Mechanism, Reports, report_count


def attack_for(device: Device) -> DeviceAttack:
    """Return the attack on a device: by memoized responses where it memoizes, by earlier reports where it states how
    they matter, else the paper's.
    """
    if not isinstance(device, Device):
        lacking = [name for name in ("mechanism", "memoizes", "send") if not hasattr(device, name)]
        rule = f"must be a device, which has {', '.join(lacking)}"
        raise InputError(rule, value=type(device).__name__, remedy="for example Fresh(mechanism)")
    if not device.memoizes:
        if isinstance(device, SequentialDevice):
            return SequentialReportsAttack(device)
        return IndependentReportsAttack(device)
    if not isinstance(device, MemoizingDevice):
        rule = "a device that memoizes must have per_device_columns and likelihood"
        raise InputError(rule, value=type(device).__name__, remedy="as poolscope.mechanisms.Memoized has them")
    return MemoizedReportsAttack(device)


def posterior(
    device: Device | Mechanism,
    reports: Reports,
    adversary: Adversary,
    *,
    lengths: Integers | None = None,
    observations: Sequence[int] | None = None,
) -> Floats:
    """Return the posterior of one user, or of several in sequence, after every report or after some counts of reports.

    Parameters
    ----------
    device : the device that sent the reports; a mechanism stands for devices that draw every report independently.
        Where devices memoize, an adversary with `knows_memoization` groups reports by memoized response.
    lengths : (users,) reports of each user; one user by default.
    observations : the report counts to evaluate; by default 0, 1, 2, ... up to the longest user's. The attack on
        memoized responses runs once for each count, which may be slow.

    Returns
    -------
    (rows, k) for one user, (users, rows, k) for several, a row for each report count. A user with fewer reports is
    evaluated on all of them.

    Examples
    --------
    >>> reports = mechanism.obfuscate(np.array([0, 0, 1, 0]), rng)
    >>> ps.posterior(mechanism, reports, strong).shape
    (5, 3)
    >>> ps.posterior(mechanism, reports, strong, observations=[0, 4])[1].round(3)
    array([0.853, 0.074, 0.074])
    """
    if observations is not None:
        check_integers("observations", observations, 0)
    check_adversary(adversary)
    # an object with some members of a device is meant as a device, though it may lack others
    meant = isinstance(device, Device) or (hasattr(device, "send") and hasattr(device, "mechanism"))
    given: Any = device if meant else Fresh(cast(Mechanism, as_mechanism(device, adversary.universe)))
    attack, mechanism = attack_for(given), given.mechanism
    if adversary.universe.size != mechanism.universe:
        rule = f"the adversary's universe must have the mechanism's {mechanism.universe} objects"
        raise InputError(rule, value=adversary.universe.size)
    columns = checked_reports(mechanism, reports)
    sizes = None if lengths is None else lengths_of(lengths, report_count(columns))
    out = attack.posterior(columns, adversary, sizes, observations)
    return out[0] if lengths is None else out
