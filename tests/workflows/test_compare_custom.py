"""Mechanisms of one's own beside those that are built in."""

import pytest
from cases.command_line import SMALL, poolscope
from cases.synthetic import SEED

from poolscope.core.errors import InputError
from poolscope.scenario.scenario import parse
from poolscope.workflows.compare import compare

CODE = '''
import numpy as np

class Response:
    """Randomized response, as somebody might write it."""

    def __init__(self, size, epsilon):
        self.size, self.epsilon = size, epsilon
        self.p = np.exp(epsilon) / (np.exp(epsilon) + size - 1)

    def obfuscate(self, objects, rng):
        others = (objects + rng.integers(1, self.size, len(objects))) % self.size
        return np.where(rng.random(len(objects)) < self.p, objects, others)

    def log_likelihood(self, reports):
        return self.epsilon * (np.arange(self.size) == np.asarray(reports)[:, None])

class Greedy:
    def __init__(self, size, appetite):
        pass
'''
NAMES: dict = {}
exec(CODE, NAMES)
Response, Greedy = NAMES["Response"], NAMES["Greedy"]


@pytest.fixture(scope="module")
def done():
    return compare(parse(SMALL, name="small"), ["grr", Response], [1, 4], users=80, seed=SEED, estimate_from=1000)


def test_a_class_is_called_by_its_name_and_played_at_every_epsilon(done):
    seen = dict.fromkeys((r.mechanism, r.epsilon) for r in done.results)
    assert list(seen) == [("grr", 1), ("grr", 4), ("Response", 1), ("Response", 4)]
    assert done.results[-1].success_bound < 1, "its epsilon bounds what anyone learns"


def test_the_same_law_gives_away_and_serves_alike(done):
    """The draws are others, the law is the same: intervals meet, and errors are those of as many reports."""
    for epsilon in (1, 4):
        for name in ("weak", "strong"):
            known, own = (
                next(r for r in done.results if (r.mechanism, r.epsilon, r.adversary) == (kind, epsilon, name))
                for kind in ("grr", "Response")
            )
            assert own.auc_pn.low <= known.auc_pn.high
            assert known.auc_pn.low <= own.auc_pn.high
            assert 0.2 * known.mse < own.mse < 2 * known.mse, "most likely and within bounds: no worse than unbiased"


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        ("nowhere:Class", "mechanism: must be an importable module:Class, got 'nowhere:Class'"),
        ("os:nothing", "must be an importable module:Class"),
        ("os:sep", "must be a class"),
        (Greedy, "mechanism Greedy: must take only universe, size, epsilon, or arguments with defaults"),
    ],
)
def test_what_cannot_be_made(kind, message):
    with pytest.raises(InputError) as error:
        compare(parse(SMALL, name="small"), [kind], [1], users=5)
    assert message in str(error.value)


def test_a_scenario_cannot_name_code():
    with pytest.raises(InputError, match="must be a known mechanism"):
        parse(SMALL.replace('"cms"', '"mine:Response"'), name="small").game(0)


@pytest.mark.slow
def test_the_command(tmp_path):
    (tmp_path / "small.toml").write_text(SMALL)
    (tmp_path / "mine.py").write_text(CODE)
    asked = ["compare", "small.toml", "--mechanism", "grr,mine:Response", "--epsilon", "2", "--users", 30]
    ran = poolscope(*asked, "--estimate-from", 500, "--out", "out", cwd=tmp_path)
    assert ran.returncode == 0, ran.stderr
    assert "Response" in ran.stdout
    assert "mine:Response" in (tmp_path / "out" / "comparison.html").read_text(), "the command that makes it again"
