"""Draw the figures of a run: each function takes a tidy table and returns an Altair chart."""

from collections.abc import Callable
from functools import wraps
from inspect import signature
from typing import Any, ParamSpec

from poolscope.figures import charts, sweep, users
from poolscope.figures.saving import save

__all__ = [
    "behavior_density",
    "behavior_maps",
    "belief_growth",
    "calibration_plot",
    "exposure_curves",
    "popularity_plot",
    "precision_null_rate",
    "save",
    "sweep_plot",
    "trade_off_curves",
]

_P = ParamSpec("_P")


# what the package itself draws stays a specification: importing altair takes longer than drawing it
def _as_chart(figure: Callable[_P, dict[str, Any]]) -> Callable[_P, Any]:
    """Return the function with an Altair chart as its result."""

    @wraps(figure)
    def chart(*arguments: _P.args, **options: _P.kwargs) -> Any:
        from poolscope.figures.notebook import chart_of

        return chart_of(figure(*arguments, **options))

    # of this module, where it is found again by processes, and with the result that it has
    chart.__module__ = __name__
    chart.__annotations__ = {**figure.__annotations__, "return": Any}
    chart.__signature__ = signature(figure).replace(return_annotation=Any)  # type: ignore[attr-defined]
    return chart


behavior_density = _as_chart(charts.behavior_density)
behavior_maps = _as_chart(charts.behavior_maps)
belief_growth = _as_chart(users.belief_growth)
calibration_plot = _as_chart(charts.calibration_plot)
exposure_curves = _as_chart(charts.exposure_curves)
popularity_plot = _as_chart(users.popularity_plot)
precision_null_rate = _as_chart(charts.precision_null_rate)
sweep_plot = _as_chart(sweep.sweep_plot)
trade_off_curves = _as_chart(charts.trade_off_curves)


def __dir__() -> list[str]:
    return __all__
