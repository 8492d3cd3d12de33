"""The tables of a scenario file: keys, types, and what must hold within a table.

Docs and messages use these keys. What only a mechanism can judge (its parameters) is kept as it
stands and checked where the mechanism is made.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any, Literal, Self, get_args

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Discriminator,
    Field,
    Tag,
    model_validator,
)

from poolscope.core.errors import InputError, did_you_mean
from poolscope.core.validation import rejection
from poolscope.game.columns import NON_PRIVATE
from poolscope.scenario.toml import toml_data

OUTSIDE = "must be a path inside the scenario's folder, relative to it"

FILE_PARAMETERS = ("hash_table", "matrix", "samples")
"""Parameters of mechanisms that name a file."""


def is_inside(path: str) -> bool:
    """Whether a path names something inside the folder that it is relative to."""
    normal = os.path.normpath(path)
    upwards = normal.split(os.sep)[0] in (os.pardir, os.curdir)
    return path.isprintable() and not upwards and not Path(path).is_absolute()


def _inside(path: str) -> str:
    if not is_inside(path):
        raise rejection(OUTSIDE, value=path)
    return path


def _increasing(counts: tuple[int, ...]) -> tuple[int, ...]:
    if any(later <= earlier for earlier, later in pairwise(counts)):
        raise rejection("must be increasing", value=list(counts))
    return counts


def _weighted(weights: dict[str, float]) -> dict[str, float]:
    if not any(weights.values()):
        raise rejection("must have a weight above 0", value=weights)
    return weights


def _form(value: object) -> str:
    """Which form a value has that may be a word or a table."""
    return "<table>" if isinstance(value, dict | BaseModel) else "<word>"


Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]
NotNegative = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Count = Annotated[int, Field(ge=1, le=2**63 - 1)]
Name = Annotated[str, Field(min_length=1)]
ProbabilityBelowOne = Annotated[float, Field(ge=0, lt=1)]
RelativePath = Annotated[str, AfterValidator(_inside)]


class Table(BaseModel):
    """A TOML table: typed as it is written, no unknown keys."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    @model_validator(mode="before")
    @classmethod
    def _suggest_key(cls, data: Any) -> Any:
        # Before pydantic's own check, which cannot name the nearest key and comes last: a missing
        # key is usually a misspelled one.
        if isinstance(data, dict) and cls.model_config["extra"] == "forbid":
            known = cls.known_keys()
            for key in data:
                if key not in known:
                    raise rejection("unknown key", key=key, remedy=did_you_mean(key, known))
        return data

    @classmethod
    def known_keys(cls) -> dict[str, type[Table] | None]:
        """The keys of the table, and the kind of table that each may hold."""
        return {field.alias or name: _table_in(field.annotation) for name, field in cls.model_fields.items()}

    def _only(self, condition: bool, key: str, why: str) -> None:
        """``key`` is given only where the condition holds."""
        if key in self.model_fields_set and not condition:
            raise rejection(f"goes only with {why}", key=key, value=getattr(self, key))

    def _exactly(self, condition: bool, key: str, why: str) -> None:
        """``key`` is given where the condition holds, and only there."""
        self._only(condition, key, why)
        if condition and key not in self.model_fields_set:
            raise rejection("is missing", key=key, remedy=f"{why} needs it")


def _table_in(annotation: Any) -> type[Table] | None:
    if isinstance(annotation, type) and issubclass(annotation, Table):
        return annotation
    return next((found for part in get_args(annotation) if (found := _table_in(part))), None)


def set_key(kind: type[Table] | None, tables: dict[str, Any], key: str, value: Any) -> None:
    """Set a key of tables, named with dots, or remove it where the value is None.

    ``kind`` says which keys there are. Where any key may be set, one that is removed must be there.
    """
    path = key.split(".") if isinstance(key, str) else [""]
    if not all(path):
        raise InputError("keys must be names with dots between them, as mechanism.epsilon", value=key)
    for depth, part in enumerate(path, start=1):
        place, keys = ".".join(path[:depth]), kind.known_keys() if kind else {}
        closed = value is None or (kind is not None and kind.model_config["extra"] == "forbid")
        if closed and part not in tables and part not in keys:
            raise InputError("unknown key", place=place, remedy=did_you_mean(part, {**tables, **keys}))
        if depth < len(path):
            below = tables.get(part, {})
            if not isinstance(below, dict):
                remedy = f"set {place} as a whole"
                raise InputError("must be a table to have keys", value=below, place=place, remedy=remedy)
            if value is not None:
                tables[part] = below
            kind, tables = keys.get(part), below
    if value is None:
        tables.pop(path[-1], None)
    else:
        tables[path[-1]] = toml_data(value, key)


class UniverseTable(Table):
    """``[universe]``: the sizes of the pools, or a file of objects, or the name of a built-in universe."""

    size: int | None = None
    pools: dict[str, int] | None = None
    objects: RelativePath | None = None
    builtin: Name | None = None

    @model_validator(mode="after")
    def _one_form(self) -> Self:
        if not self.model_fields_set:
            raise rejection("must have size and pools, or objects, or builtin")
        self._only(self.objects is None, "builtin", "a universe without a file of objects")
        for key in ("size", "pools"):
            self._exactly(self.objects is None and self.builtin is None, key, "a universe without a file of objects")
        return self


class PopularityTable(Table):
    """``[popularity]``: the truth that synthetic users draw from.

    The seed of a random popularity is a fact of the scenario, not of a run: every run has the same.
    """

    kind: Literal["uniform", "zipf", "random", "given"]
    exponent: NotNegative | None = None
    seed: Annotated[int, Field(ge=0)] = 0

    @model_validator(mode="after")
    def _parameters(self) -> Self:
        self._exactly(self.kind == "zipf", "exponent", "kind 'zipf'")
        self._only(self.kind == "random", "seed", "kind 'random'")
        return self


class MechanismTable(Table):
    """``[mechanism]``: a kind and its parameters, which the mechanism itself checks."""

    model_config = ConfigDict(extra="allow")

    kind: Name
    epsilon: Annotated[float, Field(gt=0)] | None = None

    @model_validator(mode="after")
    def _plain_parameters(self) -> Self:
        for key, value in (self.model_extra or {}).items():
            if key in DevicesTable.model_fields:
                remedy = f"write {key} in a table [devices]"
                raise rejection("is a matter of the devices, whatever the mechanism", key=key, remedy=remedy)
            if not isinstance(value, int | float | str):
                raise rejection("must be a number or a text", key=key, value=value)
        return self

    @property
    def parameters(self) -> dict[str, int | float | str]:
        """Every key but ``kind``; ``epsilon`` only where the file has it."""
        return self.model_dump(exclude={"kind"}, exclude_none=True)


class InstantaneousTable(Table):
    """``{ kind = "grr", epsilon = 1 }``: noise on a kept answer, anew for each report.

    With ``epsilon_1`` its epsilon is the one for which, as the papers reckon, a report by itself has that.
    """

    kind: Name
    epsilon: Annotated[float, Field(gt=0)] | None = None
    epsilon_1: Annotated[float, Field(gt=0)] | None = None

    @model_validator(mode="after")
    def _one_form(self) -> Self:
        if self.epsilon is None and self.epsilon_1 is None:
            raise rejection("must have epsilon or epsilon_1")
        self._only(self.epsilon is None, "epsilon_1", "noise without epsilon")
        return self


class DevicesTable(Table):
    """``[devices]``: what a device does beyond the mechanism.

    With ``memoize`` it keeps one answer for each object, whatever the kind, and with ``instantaneous`` it adds noise to
    the answer whenever it is sent; the other keys are those of ``ReportingPolicy``.
    """

    reports_per_day: Positive | None = None
    memoize: bool | None = None
    instantaneous: InstantaneousTable | None = None
    sampling_rate: Annotated[float, Field(gt=0, le=1, allow_inf_nan=False)] = 1.0
    rotate_after: Count | None = None
    cap: Count | None = None

    @model_validator(mode="after")
    def _parameters(self) -> Self:
        self._only(self.memoize is True, "instantaneous", "memoize = true")
        return self


class DensityTable(Table):
    """``{ beta = [a, b] }``: Beta(a, b) on (0, 1); ``{ table = [w1, w2, ...] }``: weights of equal cells of (0, 1]."""

    beta: Annotated[tuple[Positive, Positive], Field(strict=False)] | None = None
    table: Annotated[tuple[NotNegative, ...], Field(strict=False, min_length=1, max_length=1000)] | None = None

    @model_validator(mode="after")
    def _one_form(self) -> Self:
        if not self.model_fields_set:
            raise rejection("must have beta or table")
        self._only(self.beta is None, "table", "a density without beta")
        if self.table is not None and not any(self.table):
            raise rejection("must have a weight above 0", key="table", value=list(self.table))
        if self.beta is not None:
            from poolscope.population.priors import Beta  # takes its time, and most scenarios have none

            try:
                Beta(a=self.beta[0], b=self.beta[1])
            except InputError as error:
                raise rejection(error.rule, key="beta", value=list(self.beta)) from None
        return self


Density = Annotated[
    Annotated[Literal["uniform", "fitted"], Tag("<word>")] | Annotated[DensityTable, Tag("<table>")],
    Discriminator(_form),
]
PoolPrior = Annotated[
    Annotated[Literal["uniform", "popularity", "fitted"], Tag("<word>")]
    | Annotated[dict[str, NotNegative], AfterValidator(_weighted), Tag("<table>")],
    Discriminator(_form),
]


class PriorTable(Table):
    """``[adversary.prior]``: what the adversary believes of a user's behavior.

    The polarization's density is that of the rescaled delta, (k delta - 1) / (k - 1). "fitted" is learned from the
    external users of recorded traces. With ``none``, the probability that a user prefers no pool, that is one more
    hypothesis; the others are given that a pool is preferred.
    """

    interest: Density = "uniform"
    polarization: Density = "uniform"
    pools: PoolPrior = "uniform"
    none: ProbabilityBelowOne = 0.0

    def pool_weights(self, pool_names: Sequence[str]) -> tuple[float, ...] | None:
        """The given weight of each pool in the order of ``pool_names``; None if it is a word."""
        if isinstance(self.pools, str):
            return None
        for name in self.pools:
            if name not in pool_names:
                remedy = did_you_mean(name, pool_names)
                raise InputError("unknown pool", place=f"prior.pools.{name}", remedy=remedy)
        for name in pool_names:
            if name not in self.pools:
                raise InputError("is missing", place=f"prior.pools.{name}")
        return tuple(self.pools[name] for name in pool_names)


class UsersTable(Table):
    """``[users]``: synthetic, or recorded; without a count the command chooses.

    ``behavior`` is what synthetic users are drawn from, in the words of a prior; uniform where absent. ``none`` is the
    share of users who prefer no pool.
    """

    count: Count | None = None
    sigma: NotNegative = 0.0
    behavior: PriorTable | None = None
    none: ProbabilityBelowOne = 0.0
    traces: RelativePath | None = None

    @model_validator(mode="after")
    def _one_form(self) -> Self:
        for key in ("count", "sigma", "behavior", "none"):
            self._only(self.traces is None, key, "synthetic users, not with traces")
        if self.behavior is not None and self.behavior.none:
            raise rejection("is the belief of an adversary", key="behavior.none", remedy="write [users] none")
        return self


PoolMembers = Annotated[dict[str, list[str | int]], Field(min_length=2)]
"""Pools by their members: names, numbers, or a slice of numbers as "228:684" or "0:1368:2"."""


class AdversaryTable(Table):
    """``[[adversary]]``: who attacks, and what popularity they believe in.

    Without ``estimate_from``, an estimated popularity is that of the attacked reports themselves, which a game does not
    have; without ``method``, it is estimated in the way that suits the mechanism.
    """

    name: Name
    popularity: Literal["uniform", "estimated", "true", "given"]
    estimate_from: Count | None = None
    method: Literal["linear", "regression", "ridge", "ibu"] | None = None
    file: RelativePath | None = None
    prior: PriorTable = PriorTable()
    pools: PoolMembers | None = None
    knows_memoization: bool = True

    @model_validator(mode="after")
    def _parameters(self) -> Self:
        for key in ("estimate_from", "method"):
            self._only(self.popularity == "estimated", key, "popularity 'estimated'")
        self._only(self.popularity == "given", "file", "popularity 'given'")
        if self.name == NON_PRIVATE:
            raise rejection("is the name of the game without a mechanism", key="name")
        return self


class AttackTable(Table):
    """``[attack]``: after how many reports, and how sure the adversary must be.

    ``estimates`` is how many times an estimated popularity is drawn: users play in as many groups, so that intervals
    hold for the draw of the estimate too. With 1 all users meet the same, and intervals are given that estimate.
    """

    observations: Annotated[tuple[Count, ...], Field(strict=False, min_length=1), AfterValidator(_increasing)]
    threshold: Annotated[float, Field(ge=0, le=1)] | None = None
    non_private: bool = True
    estimates: Annotated[int, Field(ge=1, le=1000)] = 20
