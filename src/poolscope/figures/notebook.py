"""Turn figures into Altair charts, which a notebook shows and a user changes, and changed charts back into figures.

Only the public functions of ``poolscope.figures`` need it: importing Altair takes longer than drawing a report.
"""

from __future__ import annotations

from typing import Any

import altair as alt

from poolscope.figures.grammar import SCHEMA, Spec
from poolscope.figures.saving import notebook_image
from poolscope.figures.style import Picture

PARTS = {"axis": alt.Axis, "legend": alt.Legend, "scale": alt.Scale}
"""Classes of the parts of a channel."""


class _ShownOffline:
    """A chart that a notebook shows as an image as wide as its column, without a network."""

    def _repr_mimebundle_(self, *arguments: Any, **options: Any) -> Any:
        image = notebook_image(self)
        # without vl-convert, as Altair shows a chart
        return super()._repr_mimebundle_(*arguments, **options) if image is None else {"image/svg+xml": image}  # type: ignore[misc]


class _Panels(_ShownOffline, alt.FacetChart):
    pass


class _Single(_ShownOffline, alt.LayerChart):
    pass


# Any: what altair gives back is not worth a type of its own.
def chart_of(picture: Picture) -> Any:
    """Return a figure as an Altair chart whose parts can be changed like those of any other.

    ``from_dict`` would take ten times as long, and make layers that are no charts.
    """
    spec = {name: value for name, value in picture.items() if name not in ("$schema", "datasets", "params")}
    spec["data"] = alt.NamedData(**spec["data"])
    if "spec" in spec:
        panel = dict(spec["spec"])
        spec["spec"] = alt.LayerChart(layer=[_layer(one) for one in panel.pop("layer")], **panel)
        chart: Any = _Panels(**spec | {"facet": alt.Facet(**spec["facet"]), "resolve": alt.Resolve(**spec["resolve"])})
    else:
        chart = _Single(**spec | {"layer": [_layer(one) for one in spec["layer"]]})
    if "params" in picture:
        chart.params = [_param(param) for param in picture["params"]]
    # last, because Altair copies a chart at every step
    chart.datasets = picture["datasets"]
    return chart


def _layer(spec: Spec) -> Any:
    own = {name: value for name, value in spec.items() if name not in ("data", "encoding", "transform")}
    data = alt.NamedData(**spec["data"]) if "data" in spec else alt.Undefined
    transform = [alt.FilterTransform(**one) for one in spec.get("transform", ())] or alt.Undefined
    chart = alt.Chart(data, transform=transform, **own | {"mark": alt.MarkDef(**spec["mark"])})
    return chart.encode(**{channel: _channel(channel, one) for channel, one in spec["encoding"].items()})


def _channel(channel: str, spec: Spec) -> Any:
    kind = channel[0].upper() + channel[1:]
    parts = {name: PARTS[name](**part) if name in PARTS and part else part for name, part in spec.items()}
    return getattr(alt, f"{kind}Datum" if "datum" in spec else kind)(**parts)


def _param(spec: Spec) -> Any:
    return (alt.TopLevelSelectionParameter if "select" in spec else alt.VariableParameter)(**spec)


def picture_of(chart: Any) -> Picture:
    """Return the figure that a chart is, with the changes of a user."""
    bare = chart.copy(deep=False)
    # apart: altair would look into every row
    bare.datasets = alt.Undefined
    picture: Picture = bare.to_dict(validate=False) | {"$schema": SCHEMA}
    if chart.datasets is alt.Undefined:
        return picture
    # beside the tables of layers that a user has added, which altair has collected
    return picture | {"datasets": picture.get("datasets", {}) | chart.datasets}
