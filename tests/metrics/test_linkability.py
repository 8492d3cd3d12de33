"""How surely windows are told to be one device's: against counting, beside noise alone, over the draw of devices."""

import json
from dataclasses import replace

import numpy as np
import pytest
from cases.memoized import CROWD, POPULARITY, STRONG
from cases.report_files import command, scenario_of
from cases.synthetic import SEED
from scipy import stats

from poolscope.core.errors import InputError
from poolscope.core.randomness import user_keys
from poolscope.devices.policy import ReportingPolicy
from poolscope.game import windows
from poolscope.game.game import Game
from poolscope.game.windows import two_windows
from poolscope.inference.adversary import Adversary
from poolscope.inference.link_scores import link_scores, mean_popularity
from poolscope.mechanisms import CMS, Fresh, device_of, make, reports_of
from poolscope.metrics.linkability import FALSE_LINKS, linkability, roc_auc, tpr_at_fpr
from poolscope.workflows.audit.run_folder import read_run


def test_the_area_is_a_count_of_pairs():
    """Ties count half, and what is impossible is below all else."""
    rng = np.random.default_rng(SEED)
    scores = rng.integers(0, 6, size=(25, 25)) + np.eye(25)
    scores[rng.random((25, 25)) < 0.2] = -np.inf
    own, others = np.diagonal(scores), scores[~np.eye(25, dtype=bool)]
    count = sum((a > b) + (a == b) / 2 for a in own for b in others)
    found = roc_auc(scores)
    assert found.value == pytest.approx(count / (len(own) * len(others)))
    assert found.low < found.value < found.high


@pytest.mark.parametrize("devices", [5, 60])
def test_linked_is_a_count_above_all_but_a_few(devices):
    """With few devices no false link at all is one in a thousand."""
    rng = np.random.default_rng(SEED)
    scores = np.round(rng.normal(size=(devices, devices)) + 3 * np.eye(devices), 1)
    own, others = np.diagonal(scores), scores[~np.eye(devices, dtype=bool)]
    allowed = int(FALSE_LINKS * len(others))
    assert allowed == (3 if devices == 60 else 0)
    least = min(tau for tau in others if (others > tau).sum() <= allowed)
    found = tpr_at_fpr(scores, SEED)
    assert found.value == np.mean(own > least)
    assert found.low <= found.value <= found.high
    assert found == tpr_at_fpr(scores, SEED)


def test_everybody_or_nobody_is_linked():
    apart = np.where(np.eye(40, dtype=bool), 1.0, -np.inf)
    assert roc_auc(apart).value == tpr_at_fpr(apart, SEED).value == 1
    assert roc_auc(apart).low < 1 > tpr_at_fpr(apart, SEED).low, "forty devices are no proof"
    assert tpr_at_fpr(-apart.T, SEED).value == 0
    assert roc_auc(np.zeros((9, 9))).value == 0.5
    assert tpr_at_fpr(np.zeros((9, 9)), SEED).value == 0


CROWDS, DEVICES = 100, 60


def partition(rng, devices):
    """Scores of devices some of which look like anybody."""
    loud, close = rng.normal(size=(2, devices))
    others = 0.5 * (loud[:, None] + loud) + rng.normal(size=(devices, devices))
    return np.where(np.eye(devices, dtype=bool), 2.0 + 0.5 * close, others)


def by_pairs(scores):
    """The standard error of the area if every pair were of devices of its own."""
    devices = len(scores)
    own, others = np.diagonal(scores), scores[~np.eye(devices, dtype=bool)]
    above = own[:, None] > others
    return np.sqrt(above.mean(axis=1).var(ddof=1) / len(own) + above.mean(axis=0).var(ddof=1) / len(others))


@pytest.mark.statistical
def test_the_intervals_are_over_the_draw_of_devices():
    rng = np.random.default_rng(SEED)
    large = [partition(rng, 400) for _ in range(20)]
    truth = np.mean([roc_auc(scores).value for scores in large])
    share = np.mean([tpr_at_fpr(scores, SEED).value for scores in large[:8]])
    held = {"area": 0, "pairs": 0, "tpr_at_fpr": 0}
    for _ in range(CROWDS):
        scores = partition(rng, DEVICES)
        found, some = roc_auc(scores), tpr_at_fpr(scores, SEED)
        held["area"] += found.low <= truth <= found.high
        held["pairs"] += abs(found.value - truth) <= 1.96 * by_pairs(scores)
        held["tpr_at_fpr"] += some.low <= share <= some.high
    least = stats.binom.ppf(1e-3, CROWDS, 0.95)
    assert held["area"] >= least, held
    assert held["tpr_at_fpr"] >= least, held
    assert held["pairs"] < least, "the negative control"


SKETCH = CMS(universe=CROWD.size, epsilon=4.0, m=1024, hashes=65536)


def game(device, size, observations=None, **policy):
    counts = observations or [2 * size]
    return Game(
        universe=CROWD,
        popularity=POPULARITY,
        device=device,
        policy=ReportingPolicy(rotate_after=size, **policy),
        adversaries=[STRONG],
        observations=counts,
        non_private=False,
    )


def test_identical_answers_link_devices():
    """A sketch of 1,024 bits that comes twice is one device's."""
    (found,) = linkability(game(device_of(SKETCH, memoize=True), 30), 60, SEED)
    assert (found.adversary, found.window, found.devices) == ("strong", 30, 60)
    assert found.roc_auc.low > 0.9
    assert found.roc_auc.value == found.tpr_at_fpr.value == 1


@pytest.mark.parametrize("kind", ["cms", "grr", "l-grr", "l-osue", "dbitflip", "rappor"])
def test_reports_that_are_drawn_anew_link_nobody(kind):
    """Users without habits, whose devices are taken to keep answers and do not: half, within the error."""
    parameters = {
        "cms": {"epsilon": 4.0, "m": 64, "hashes": 64},
        "rappor": {"f": 0.25, "p": 0.1, "q": 0.9, "m": 16, "cohorts": 1},
        "dbitflip": {"epsilon": 3.0, "buckets": 6, "d": 6},
        "l-grr": {"epsilon_perm": 3.0, "epsilon_1": 2.9},
        "l-osue": {"epsilon_perm": 3.0, "epsilon_1": 2.9},
    }
    mechanism = make(kind, CROWD.size, parameters.get(kind, {"epsilon": 3.0}))
    device, users, size = device_of(mechanism, memoize=True), 120, 5
    rng = np.random.default_rng(SEED)
    traces = rng.choice(CROWD.size, size=(users, 2 * size), p=mean_popularity(STRONG))
    found = {}
    for name, sender in (("fresh", Fresh(mechanism)), ("kept", device)):
        reports = reports_of(sender, traces, user_keys(SEED, np.arange(users)))
        rows = np.arange(2 * size * users).reshape(users, 2, size)
        sides = [{column: x[rows[:, side].ravel()] for column, x in reports.items()} for side in (0, 1)]
        sizes = np.full(users, size)
        found[name] = roc_auc(link_scores(device, *sides, STRONG, (sizes, sizes)))
    error = (found["fresh"].high - found["fresh"].low) / 3.92
    assert abs(found["fresh"].value - 0.5) < 4 * error
    assert found["kept"].value > 0.5 + 4 * error, "the negative control"


def test_what_a_device_keeps_beside_is_a_name():
    """A seed of 32 bits links everybody, however noisy the answers are."""
    device = device_of(make("loloha", CROWD.size, {"epsilon": 0.1}))
    (found,) = linkability(game(device, 2), 50, SEED)
    assert found.roc_auc.value == found.tpr_at_fpr.value == 1


def test_windows_are_the_first_two_of_devices_that_fill_them():
    device = device_of(SKETCH, memoize=True)
    found = two_windows(game(device, 5, [14], sampling_rate=0.8), 40, SEED)
    assert found.size == 5
    assert 2 <= found.devices < 40
    assert len(found.first["hash"]) == len(found.second["hash"]) == 5 * found.devices
    whole = two_windows(game(device, 5, [60], sampling_rate=0.8), 40, SEED)
    assert whole.devices == 40
    assert two_windows(game(device, 8, [15]), 40, SEED) is None
    assert linkability(game(device, 8, [15]), 40, SEED) == ()
    assert linkability(game(device, 5, [20], cap=9), 40, SEED) == ()
    assert linkability(game(Fresh(SKETCH), 5), 40, SEED) == ()
    naive = Adversary(name="naive", universe=CROWD, popularity=POPULARITY, knows_memoization=False)
    assert linkability(replace(game(device, 5), adversaries=[naive]), 40, SEED) == ()


def test_long_windows_and_large_universes_take_fewer_devices(monkeypatch):
    device = device_of(SKETCH, memoize=True)
    monkeypatch.setattr(windows, "MAX_REPORTS", 20 * 5)
    assert two_windows(game(device, 5), 100, SEED).devices == 20
    monkeypatch.setattr(windows, "MAX_CELLS", 1)
    assert two_windows(game(device, 5), 100, SEED) is None


@pytest.mark.slow
@pytest.mark.usefixtures("short_chains")
def test_an_audit_tells_it(tmp_path, capsys):
    """In the terminal, on the page and in the summary, which is read again."""
    kept = "kind = 'grr'\nepsilon = 3\n[devices]\nmemoize = true\nrotate_after = 5\n"
    strong = "[[adversary]]\nname = 'strong'\npopularity = 'true'\n"
    scenario_of(tmp_path, mechanism=kept, adversaries=strong)
    out = tmp_path / "run"
    assert command("audit", tmp_path / "small.toml", "--users", 20, "--out", out) == 0
    assert "Linking two windows of 5 reports to one device" in capsys.readouterr().out
    assert "Linking two windows of 5 reports to one device" in (out / "report.html").read_text()
    (found,) = json.loads((out / "summary.json").read_text())["linkability"]
    assert set(found) >= {"adversary", "window", "devices", "roc_auc", "roc_auc_low"}
    assert {f"tpr_at_fpr_0.001{end}" for end in ("", "_low", "_high")} <= set(found)
    (again,) = read_run(out).summary.linkability
    assert again.as_json() == found
    assert command("render", out) == 0
    summary = json.loads((out / "summary.json").read_text())
    summary["linkability"][0]["roc_auc"] = "much"
    (out / "summary.json").write_text(json.dumps(summary))
    with pytest.raises(InputError, match=r"summary\.json: linkability\.0\.roc_auc: must be a number, got 'much'"):
        read_run(out)
