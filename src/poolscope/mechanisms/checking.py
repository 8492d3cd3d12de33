"""Check mechanisms and reports that callers pass: mechanisms of users, and arrays of reports."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from poolscope.core.errors import InputError, did_you_mean
from poolscope.mechanisms.custom import Adapted, as_columns, is_builtin_class, owner
from poolscope.mechanisms.protocols import ReportColumn, Reports
from poolscope.mechanisms.pure import Likelihood, MechanismDefaults, Pure, ScoreOracle, SupportOracle, declared_columns
from poolscope.mechanisms.unary import check_bits

#: Attributes that a game and an attack use.
REQUIRED = (
    "epsilon",
    "universe",
    "likelihood_offset",
    "likelihood_scale",
    "report",
    "mass",
    "sent_masses",
    "shared_by",
)

#: Methods of the frequency estimate: on given reports, and on simulated ones.
COUNTING = ("scores", "score_sums", "support_counts", "tally")
SIMULATION = ("simulate_counts", "simulate_tally", "simulate_at")

#: Method that a subclass may override -> the methods that must be consistent with it.
DEPENDENTS: dict[str, tuple[str, ...]] = {
    "obfuscate": ("report",),
    "report": ("obfuscate", "sent_masses", *SIMULATION),
    "support": ("mass", "sent_masses", "likelihood", "log_likelihood", *COUNTING, *SIMULATION),
    "likelihood": ("mass", "sent_masses", "log_likelihood"),
    "log_likelihood": ("mass", "sent_masses", "likelihood"),
    "mass": ("sent_masses", "log_likelihood"),
    "scores": ("score_sums", "tally", *SIMULATION),
}

#: Generic methods -> the methods that each calls. A method that is not listed is a fast path and calls none of them.
GENERIC: dict[Callable[..., Any], tuple[str, ...]] = {
    MechanismDefaults.obfuscate: ("report",),
    MechanismDefaults.sent_masses: ("report", "mass", "support", "likelihood", "log_likelihood"),
    Pure.mass: ("support",),
    Pure.likelihood: ("support",),
    Pure.log_likelihood: ("support", "likelihood"),
    Likelihood.likelihood: ("log_likelihood",),
    Likelihood.mass: ("log_likelihood", "likelihood"),
    SupportOracle.support_counts: ("support",),
    SupportOracle.scores: ("support",),
    SupportOracle.score_sums: ("support",),
    ScoreOracle.score_sums: ("scores", "support"),
    ScoreOracle.tally: ("scores", "support"),
    ScoreOracle.simulate_counts: ("report", "scores", "support"),
    ScoreOracle.simulate_tally: ("report", "scores", "support"),
    ScoreOracle.simulate_at: ("report", "scores", "support"),
}


def check_mechanism(mechanism: object) -> None:
    """Raise an `InputError` if this is no mechanism, or a subclass whose overridden method would be ignored."""
    if isinstance(mechanism, type):
        remedy = "create an instance, for example GRR(universe=100, epsilon=2.0)"
        raise InputError("must be a mechanism, not a class", value=mechanism.__name__, remedy=remedy)
    lacking = [name for name in REQUIRED if not _has(mechanism, name)]
    if lacking:
        rule = f"must be a mechanism, which has {', '.join(lacking)}"
        remedy = "wrap your own with poolscope.mechanisms.adapt(mine, universe)"
        raise InputError(rule, value=type(mechanism).__name__, remedy=remedy)
    found = find_bypassed_override(type(mechanism))
    if found is not None:
        rule = f"{type(mechanism).__name__} overrides {found[0]}, which the inherited {found[1]} does not use"
        remedy = "poolscope.mechanisms.adapt(mine, universe) derives all other methods from yours"
        raise InputError(rule, remedy=remedy)


def find_bypassed_override(kind: type) -> tuple[str, str] | None:
    """Return a method that a user's class overrides, and an inherited one that does not call it; None if consistent."""
    overridden = {name for name in DEPENDENTS if not is_builtin_class(owner(kind, name))}
    for name in DEPENDENTS:
        for dependent in DEPENDENTS[name] if name in overridden else ():
            known = owner(kind, dependent)
            if known is not None and is_builtin_class(known):
                called = GENERIC.get(vars(known)[dependent], ())
                if not overridden.intersection(called):
                    return name, dependent
    return None


def _has(mechanism: object, name: str) -> bool:
    try:
        return hasattr(mechanism, name)
    except InputError:  # the property exists, and its message says what is missing
        return True


def checked_reports(mechanism: object, reports: Any) -> Reports:
    """Return reports as columns, checked against the mechanism's report columns."""
    expected = declared_columns(mechanism)
    if not isinstance(reports, Mapping) and not isinstance(mechanism, Adapted):
        rule = f"reports must be a mapping of the columns {', '.join(expected)}"
        raise InputError(rule, value=type(reports).__name__)
    columns = as_columns(reports)[0]
    made = mechanism.template if isinstance(mechanism, Adapted) else None
    for name in expected if made is None else made:
        if name not in columns:
            rule = f"reports must have a column {name!r}"
            raise InputError(rule, value=list(columns), remedy=did_you_mean(name, columns))
        if made is not None and columns[name].shape[1:] != made[name].shape[1:]:
            rule = f"must be rows of the shape {made[name].shape[1:]}, as the mechanism makes them"
            raise InputError(rule, value=columns[name].shape[1:], place=name)
        # a user's mechanism may declare the form of its files, which can differ from the arrays that it returns
        if name in expected and (made is None or made[name].shape[1:] == expected[name].row):
            _check_column(name, columns[name], expected[name])
    return columns


def _check_column(name: str, values: NDArray[Any], column: ReportColumn) -> None:
    if column.kind == "bits":
        _check_shape(name, values, column.row, "bytes (uint8)", values.dtype == np.uint8)
        try:
            check_bits(values, column.size)
        except InputError as error:
            raise error.at(place=name) from None
        return
    if column.kind == "reals":
        _check_shape(name, values, column.row, "finite numbers", values.dtype.kind in "fiu")
        _refuse(name, values, np.isfinite(values), "must be finite numbers")
        return
    _check_shape(name, values, (), "integers", values.dtype.kind in "iu")
    if column.kind == "sign":
        _refuse(name, values, np.abs(values) == 1, "must be 1 or -1")
    else:
        _refuse(name, values, (values >= 0) & (values <= column.size - 1), f"must be 0 to {column.size - 1}")


def _check_shape(name: str, values: NDArray[Any], row: tuple[int, ...], what: str, fits: bool) -> None:
    if not fits or values.shape[1:] != row:
        each = f"{row[0]} for each report" if row else "one for each report"
        rule = f"must be {what}, {each}"
        raise InputError(rule, value=f"{values.dtype} {values.shape}", place=name)


def _refuse(name: str, values: NDArray[Any], right: NDArray[np.bool_], rule: str) -> None:
    if not right.all():
        report = int(np.argwhere(~right)[0][0])
        raise InputError(rule, value=values[~right][0], place=f"{name}, report {report}")
