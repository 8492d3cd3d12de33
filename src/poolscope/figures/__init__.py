"""Draw the figures of a run: each function takes a tidy table and returns an Altair chart."""

from poolscope.figures.charts import (
    behavior_density,
    behavior_maps,
    calibration_plot,
    exposure_curves,
    precision_null_rate,
    trade_off_curves,
)
from poolscope.figures.saving import save
from poolscope.figures.sweep import sweep_plot
from poolscope.figures.users import belief_growth, popularity_plot

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


def __dir__() -> list[str]:
    return __all__
