"""The tables of a scenario file: keys, types, and rules within a table.

Documentation and messages use these keys. The parameters of a mechanism are stored as given, and checked where the
mechanism is constructed.
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
"""Parameters of mechanisms whose value is a file."""


def is_inside(path: str) -> bool:
    """Return whether a relative path stays inside its folder."""
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
    """Return the form of a value that may be a word or a table."""
    return "<table>" if isinstance(value, dict | BaseModel) else "<word>"


Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]
NotNegative = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Epsilon = Annotated[float, Field(gt=0)]
Count = Annotated[int, Field(ge=1, le=2**63 - 1)]
Name = Annotated[str, Field(min_length=1)]
ProbabilityBelowOne = Annotated[float, Field(ge=0, lt=1)]
RelativePath = Annotated[str, AfterValidator(_inside)]

ROW_SUM_TOLERANCE = 1e-6
"""Largest deviation from 1 of a row of a link."""


def _rows_sum_to_one(rows: tuple[tuple[float, ...], ...]) -> tuple[tuple[float, ...], ...]:
    for row in rows:
        if abs(sum(row) - 1) > ROW_SUM_TOLERANCE:
            raise rejection("rows of a link must sum to 1", value=list(row))
    return rows


def _link_form(value: object) -> str:
    """Return the form of a link: a number, a file, or a matrix."""
    if isinstance(value, list | tuple):
        return "<matrix>"
    return "<file>" if isinstance(value, str) else "<number>"


LinkRow = Annotated[tuple[NotNegative, ...], Field(strict=False, min_length=2)]
Link = Annotated[
    Annotated[float, Field(ge=0, le=1), Tag("<number>")]
    | Annotated[RelativePath, Tag("<file>")]
    | Annotated[
        tuple[LinkRow, ...], Field(strict=False, min_length=2), AfterValidator(_rows_sum_to_one), Tag("<matrix>")
    ],
    Discriminator(_link_form),
]
"""Pr[preferred pool | value]: the probability of the pool of the same name, a CSV file, or the rows of a matrix."""


class TomlTable(BaseModel):
    """A TOML table: strictly typed, without unknown keys."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    @model_validator(mode="before")
    @classmethod
    def _suggest_key(cls, data: Any) -> Any:
        # before pydantic's own check, which cannot suggest the nearest key: a missing key is usually a misspelled one
        if isinstance(data, dict) and cls.model_config["extra"] == "forbid":
            known = cls.known_keys()
            for key in data:
                if key not in known:
                    raise rejection("unknown key", key=key, remedy=did_you_mean(key, known))
        return data

    @classmethod
    def known_keys(cls) -> dict[str, type[TomlTable] | None]:
        """Return the keys of the table, and the table type of each, if any."""
        return {field.alias or name: _table_in(field.annotation) for name, field in cls.model_fields.items()}

    def _only(self, condition: bool, key: str, why: str) -> None:
        """Check that ``key`` is given only where the condition holds."""
        if key in self.model_fields_set and not condition:
            raise rejection(f"requires {why}", key=key, value=getattr(self, key))

    def _exactly(self, condition: bool, key: str, why: str) -> None:
        """Check that ``key`` is given if and only if the condition holds."""
        self._only(condition, key, why)
        if condition and key not in self.model_fields_set:
            raise rejection("is missing", key=key, remedy=f"{why} needs it")


def _table_in(annotation: Any) -> type[TomlTable] | None:
    if isinstance(annotation, type) and issubclass(annotation, TomlTable):
        return annotation
    return next((found for part in get_args(annotation) if (found := _table_in(part))), None)


def set_key(kind: type[TomlTable] | None, tables: dict[str, Any], key: str, value: Any) -> None:
    """Set a dotted key of tables, or remove it where the value is None.

    ``kind`` defines the known keys. In a table with arbitrary keys, a removed key must exist.
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


Size = Annotated[int, Field(json_schema_extra={"minimum": 1})]
"""A number of objects; its bound is for the JSON Schema, as ``Universe`` checks it with a better message."""


class UniverseTable(TomlTable):
    """``[universe]``: the sizes of the pools, a file of objects, or the name of a built-in universe."""

    size: Size | None = None
    pools: Annotated[dict[str, Size], Field(json_schema_extra={"minProperties": 2})] | None = None
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


class PopularityTable(TomlTable):
    """``[popularity]``: the true popularity, from which synthetic users draw.

    The seed of a random popularity belongs to the scenario, not to a run.
    """

    kind: Literal["uniform", "zipf", "random", "given"]
    exponent: NotNegative | None = None
    seed: Annotated[int, Field(ge=0)] = 0

    @model_validator(mode="after")
    def _parameters(self) -> Self:
        self._exactly(self.kind == "zipf", "exponent", "kind 'zipf'")
        self._only(self.kind == "random", "seed", "kind 'random'")
        return self


class MechanismTable(TomlTable):
    """``[mechanism]``: a kind and its parameters, which the mechanism itself checks."""

    model_config = ConfigDict(extra="allow")

    kind: Name
    epsilon: Epsilon | None = None

    @model_validator(mode="after")
    def _plain_parameters(self) -> Self:
        for key, value in (self.model_extra or {}).items():
            if key in DevicesTable.model_fields:
                remedy = f"write {key} in a table [devices]"
                raise rejection("is a key of [devices], not of a mechanism", key=key, remedy=remedy)
            if not isinstance(value, int | float | str):
                raise rejection("must be a number or a string", key=key, value=value)
        return self

    @property
    def parameters(self) -> dict[str, int | float | str]:
        """All keys except ``kind``; ``epsilon`` only where it is given."""
        return self.model_dump(exclude={"kind"}, exclude_none=True)


class InstantaneousTable(TomlTable):
    """``{ kind = "grr", epsilon = 1 }``: instantaneous randomized response on a memoized response.

    ``epsilon_1`` instead gives the ε of the first report, by the formulas of the literature.
    """

    kind: Name
    epsilon: Epsilon | None = None
    epsilon_1: Epsilon | None = None

    @model_validator(mode="after")
    def _one_form(self) -> Self:
        if self.epsilon is None and self.epsilon_1 is None:
            raise rejection("must have epsilon or epsilon_1")
        self._only(self.epsilon is None, "epsilon_1", "noise without epsilon")
        return self


class DevicesTable(TomlTable):
    """``[devices]``: memoization and the reporting policy.

    With ``memoize`` a device stores one response for each object, whatever the mechanism. With ``instantaneous`` it
    adds noise to the stored response for each report. The other keys are those of ``ReportingPolicy``.
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


class DensityTable(TomlTable):
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
            from poolscope.population.priors import Beta  # a slow import that most scenarios do not need

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


class PriorTable(TomlTable):
    """``[adversary.prior]``: the adversary's prior on a user's behavior.

    The density of the polarization is that of the rescaled delta, (k delta - 1) / (k - 1). "fitted" is fitted to the
    external users of recorded traces. ``none`` is the probability that a user prefers no pool, which adds a hypothesis;
    the other priors are conditional on preferring a pool.
    """

    interest: Density = "uniform"
    polarization: Density = "uniform"
    pools: PoolPrior = "uniform"
    none: ProbabilityBelowOne = 0.0

    def pool_weights(self, pool_names: Sequence[str]) -> tuple[float, ...] | None:
        """Return the weights of the pools in the order of ``pool_names``; None if they are given by a word."""
        if isinstance(self.pools, str):
            return None
        for name in self.pools:
            if name not in pool_names:
                remedy = did_you_mean(name, pool_names)
                raise InputError("unknown pool", place=f"pools.{name}", remedy=remedy)
        for name in pool_names:
            if name not in self.pools:
                raise InputError("is missing", place=f"pools.{name}")
        return tuple(self.pools[name] for name in pool_names)


class HabitsTable(TomlTable):
    """``{ dirichlet = c }``: each user's own popularity is drawn from Dirichlet(c * popularity)."""

    dirichlet: Positive


class ChangeTable(TomlTable):
    """``{ after = 90, share = 0.3 }``: this share of users prefers another pool after this many events."""

    after: Count
    share: Annotated[float, Field(ge=0, le=1)]


class UsersTable(TomlTable):
    """``[users]``: synthetic or recorded users; without ``count`` the command chooses their number.

    ``behavior`` is the distribution of synthetic users, with the keys of a prior; default uniform. ``none`` is the
    share of users who prefer no pool. ``edges`` are other populations that data allow, by name, as `fit` writes them:
    `advise` shows what the recommendation exposes of each. ``habits`` gives each user an own popularity, as ``sigma``
    does. With ``change``, the preferred pool of some users changes.
    """

    count: Count | None = None
    sigma: NotNegative = 0.0
    behavior: PriorTable | None = None
    edges: dict[Name, PriorTable] = Field(default_factory=dict)
    none: ProbabilityBelowOne = 0.0
    traces: RelativePath | None = None
    habits: HabitsTable | None = None
    change: ChangeTable | None = None

    @model_validator(mode="after")
    def _one_form(self) -> Self:
        for key in ("count", "sigma", "behavior", "edges", "none", "habits", "change"):
            self._only(self.traces is None, key, "synthetic users, not traces")
        self._only(not self.sigma, "habits", "sigma = 0, as both are a user's own popularity")
        for place, drawn in self.behaviors.items():
            if drawn.none:
                raise rejection("is a key of an adversary's prior", key=f"{place}.none", remedy="write [users] none")
            for key in ("interest", "polarization", "pools"):
                if getattr(drawn, key) == "fitted":
                    rule = "must not be fitted, which is of an adversary's prior and recorded users"
                    raise rejection(rule, key=f"{place}.{key}", value="fitted")
        return self

    @property
    def behaviors(self) -> dict[str, PriorTable]:
        """The distributions of synthetic users, by the place of each in the table."""
        own = {} if self.behavior is None else {"behavior": self.behavior}
        return own | {f"edges.{name}": table for name, table in self.edges.items()}


PoolMembers = Annotated[dict[str, list[str | int]], Field(min_length=2)]
"""Pools by their members: names, numbers, or a slice of numbers as "228:684" or "0:1368:2"."""


class AdversaryTable(TomlTable):
    """``[[adversary]]``: an adversary and its assumed popularity.

    Without ``estimate_from``, the popularity is estimated from the attacked reports themselves, which is not possible
    in a game. Without ``method``, the default estimator of the mechanism is used. ``links`` has the assumed ``link`` of
    collections by name; default: the true one.
    """

    name: Name
    popularity: Literal["uniform", "estimated", "true", "given"]
    estimate_from: Count | None = None
    method: Literal["linear", "regression", "ridge", "ibu"] | None = None
    file: RelativePath | None = None
    prior: PriorTable = PriorTable()
    pools: PoolMembers | None = None
    knows_memoization: bool = True
    links: dict[str, Link] = {}

    @model_validator(mode="after")
    def _parameters(self) -> Self:
        for key in ("estimate_from", "method"):
            self._only(self.popularity == "estimated", key, "popularity 'estimated'")
        self._only(self.popularity == "given", "file", "popularity 'given'")
        if self.name == NON_PRIVATE:
            raise rejection("is the name of the game without a mechanism", key="name")
        return self


class AttackTable(TomlTable):
    """``[attack]``: numbers of reports after which to guess, and the confidence threshold.

    ``estimates`` is the number of draws of an estimated popularity. Users are split into as many groups, so that
    confidence intervals include the variation of the estimate. With 1, intervals are conditional on one estimate.
    """

    observations: Annotated[tuple[Count, ...], Field(strict=False, min_length=1), AfterValidator(_increasing)]
    threshold: Annotated[float, Field(ge=0, le=1)] | None = None
    non_private: bool = True
    estimates: Annotated[int, Field(ge=1, le=1000)] = 20
