"""Write Vega-Lite specifications as dictionaries: layers of marks, in one panel or in a panel for each value.

This is the part of Vega-Lite that the figures use, under its own names. Importing Altair takes longer than drawing all
figures of a report, so only the public functions convert a specification into an Altair chart (`notebook`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

Spec = dict[str, Any]
"""A specification or a part of one: an axis, a scale, a channel."""

SCHEMA = "https://vega.github.io/schema/vega-lite/v6.4.1.json"
"""Version of Vega-Lite that the specifications are written in."""

_TYPES = {"Q": "quantitative", "N": "nominal"}


def field(shorthand: str, **options: Any) -> Spec:
    """Return a channel that shows a field: ``name:Q`` of quantities, ``name:N`` of names, ``name`` of a second end."""
    name, _, kind = shorthand.partition(":")
    return {"field": name, **({"type": _TYPES[kind]} if kind else {}), **options}


@dataclass(frozen=True)
class Layer:
    """Marks of one kind with their channels, and the parameters that they define; every method returns another."""

    spec: Spec
    params: tuple[Spec, ...] = ()

    def encode(self, **channels: Spec) -> Layer:
        """Add channels."""
        return replace(self, spec={**self.spec, "encoding": {**self.spec.get("encoding", {}), **channels}})

    def where(self, test: str) -> Layer:
        """Keep the rows where a Vega expression is true."""
        return replace(self, spec={**self.spec, "transform": [*self.spec.get("transform", ()), {"filter": test}]})

    def define(self, param: Spec) -> Layer:
        """Add a parameter: a selection in this layer, or a variable."""
        return replace(self, params=(*self.params, param))


def mark(kind: str, *, data: str | None = None, **look: Any) -> Layer:
    """Return a layer of marks on the rows of the panel, or on another table of the chart."""
    return Layer({**({} if data is None else {"data": {"name": data}}), "mark": {"type": kind, **look}})


def layered(layers: Sequence[Layer], table: str, *, height: float) -> Spec:
    """Return a chart of one panel, the first layer at the back."""
    specs, params = _lifted(layers)
    return {"$schema": SCHEMA, "data": {"name": table}, "height": height, "layer": specs, **params}


def faceted(layers: Sequence[Layer], table: str, facet: Spec, columns: int, **panel: Any) -> Spec:
    """Return a chart with a panel for each value of a field, each with an x axis; `panel` are its properties."""
    specs, params = _lifted(layers)
    return {
        "$schema": SCHEMA,
        "data": {"name": table},
        "facet": facet,
        "columns": columns,
        "spec": {"layer": specs, **panel},
        "resolve": {"axis": {"x": "independent"}},
        **params,
    }


def _lifted(layers: Sequence[Layer]) -> tuple[list[Spec], Spec]:
    """Return the layers and, apart, their parameters: they stand at the top, where a selection names its layer."""
    specs, params = [], []
    for number, layer in enumerate(layers):
        spec, name = layer.spec, f"view_{number}"
        for param in layer.params:
            if "select" in param:
                spec, param = {**spec, "name": name}, {**param, "views": [name]}
            params.append(param)
        specs.append(spec)
    return specs, {"params": params} if params else {}
