"""The paper's two main tables, cell by cell: weak, strong and non-private, 20,000 users each."""

import pytest

from poolscope import metrics
from poolscope.core.executors import Local
from poolscope.game.game import play
from poolscope.scenario.build import build_game
from poolscope.scenario.scenario import load_scenario

OBSERVATIONS = (7, 30, 90, 180)
# tab:emojis-AUC-PN and tab:news-AUC-PN
PUBLISHED = {
    "apple-emojis": {
        "weak": (0.20, 0.24, 0.32, 0.40),
        "strong": (0.37, 0.61, 0.80, 0.88),
        "non-private": (0.86, 0.96, 0.99, 0.99),
    },
    "apple-web-domains": {
        "weak": (0.72, 0.89, 0.95, 0.97),
        "strong": (0.74, 0.90, 0.96, 0.98),
        "non-private": (0.87, 0.96, 0.99, 0.99),
    },
}
# Two decimals of the paper, its users and ours, its slightly other priors and its order of ties.
BOUND = 0.016
USERS, SEED = 20_000, 1


@pytest.fixture(scope="module", params=PUBLISHED)
def played(request):
    """A setting's name and its outcomes, from one game."""
    game = build_game(load_scenario(request.param), SEED, Local().map)
    assert tuple(game.observations) == OBSERVATIONS
    assert [a.name for a in game.adversaries] == ["weak", "strong"]
    return request.param, play(game, USERS, SEED)


@pytest.mark.statistical
@pytest.mark.parametrize("adversary", ["weak", "strong", "non-private"])
@pytest.mark.parametrize("n", OBSERVATIONS)
def test_cell(played, adversary, n):
    setting, outcomes = played
    published = PUBLISHED[setting][adversary][OBSERVATIONS.index(n)]
    area = metrics.auc_pn(metrics.select(outcomes, adversary, n), SEED)
    assert abs(area.value - published) < BOUND, (area, published)
