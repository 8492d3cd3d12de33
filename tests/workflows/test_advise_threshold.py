"""The confidence of an advice is the scenario's threshold, unless another is asked for."""

import pytest
from cases.engines import scenario_text

from poolscope.scenario.scenario import parse
from poolscope.workflows.advise.question import question_of


@pytest.mark.parametrize(
    ("threshold", "asked", "used"), [(None, None, 0.9), (0.95, None, 0.95), (0.95, 0.8, 0.8), (None, 0.8, 0.8)]
)
def test_the_threshold_is_the_confidence(threshold, asked, used):
    text = scenario_text() + ("" if threshold is None else f"threshold = {threshold}\n")
    assert question_of(parse(text, name="x"), max_exposed=0.1, threshold=asked).threshold == used
