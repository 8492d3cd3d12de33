"""The same users against many mechanisms, what the curator learns, and the folder that says so."""

import json
import re
from dataclasses import replace

import altair as alt
import numpy as np
import pytest
from cases.command_line import SMALL, poolscope
from cases.records import choice
from cases.synthetic import SEED
from scipy import stats
from typer.testing import CliRunner

from poolscope.cli.app import counts, numbers, words
from poolscope.cli.commands import app
from poolscope.core.errors import InputError
from poolscope.figures.compare import _places, pareto_front
from poolscope.figures.saving import specification
from poolscope.game.game import play
from poolscope.html import compare as compare_page
from poolscope.html.compare import at_equal_error, interval_note, page_of, summary_text, write_page
from poolscope.mechanisms import make
from poolscope.metrics.bounds import success_bound
from poolscope.metrics.records import summarize
from poolscope.metrics.usefulness import standard_errors, usefulness
from poolscope.population.popularity import zipf
from poolscope.population.universe import Universe
from poolscope.reports.utility import expected_errors, measure_utility
from poolscope.scenario.build import build_game
from poolscope.scenario.scenario import load_scenario, parse
from poolscope.workflows.compare import compare, mark_pareto_optimal, variants

USERS, REPORTS = 120, 2000


SKETCH = {"grr": {}, "oue": {}, "cms": {"m": 32, "hashes": 64}}


@pytest.fixture(scope="module")
def scenario():
    return parse(SMALL, name="small")


@pytest.fixture(scope="module")
def done(scenario):
    return compare(scenario, ["grr", "oue", "cms", "identity"], [1, 4], users=USERS, seed=SEED, estimate_from=REPORTS)


# What is compared


def test_every_choice_says_what_its_error_leaves_to_see(done, scenario):
    """The same for every adversary, and more at the larger epsilon; without noise, only the draw of objects is left."""
    game = scenario.game(SEED)
    for record in done.results:
        if record.mechanism == "identity":
            continue
        mechanism = make(record.mechanism, 30, {**SKETCH[record.mechanism], "epsilon": record.epsilon})
        found = usefulness(mechanism, game.universe, game.popularity, REPORTS)
        assert record.n_above == found.n_above
        assert record.recall_top10 == found.top[0].recall
    by = {(r.mechanism, r.epsilon): r for r in done.results if r.adversary == "weak"}
    for kind in ("grr", "oue", "cms"):
        assert by[kind, 1.0].n_above <= by[kind, 4.0].n_above
        assert by[kind, 1.0].recall_top10 < by[kind, 4.0].recall_top10


def test_every_choice_meets_every_adversary(done):
    choices = [(k, e) for k in ("grr", "oue", "cms") for e in (1.0, 4.0)] + [("identity", np.inf)]
    seen = [(r.mechanism, r.epsilon, r.adversary) for r in done.results]
    assert seen == [(*chosen, adversary) for chosen in choices for adversary in ("weak", "strong")]
    assert (done.n, done.users, done.estimate_from) == (10, USERS, REPORTS)
    for record in done.results:
        for name in (
            "auc_pn",
            "precision",
            "exposed_90",
            "reports_to_50pct",
            "bayes_risk_ratio",
            "bayes_security",
            "log_odds_gain_p99",
        ):
            value, low, high = getattr(record, name)
            assert low <= value <= high, name
        assert record.composition_bound == 10 * record.epsilon
        assert record.log_odds_gain_p99.value <= record.composition_bound
        assert record.precision.low <= record.success_bound == success_bound(record.epsilon, 10, record.baseline)


def test_users_are_those_of_an_audit(scenario, done):
    """A choice that is the scenario's own gives what the scenario gives."""
    game = build_game(scenario, SEED)
    summary = summarize(play(game, USERS, SEED), game, SEED)
    audited = {r.adversary: r.as_json() for r in summary if r.n == 10}
    for record in [*(r for r in done.results if (r.mechanism, r.epsilon) == ("cms", 4.0)), done.non_private]:
        facts = record.as_json()
        for name, value in audited[record.adversary].items():
            assert facts[name] == value, name


def test_less_noise_serves_better_and_gives_away_more(done):
    for mechanism in ("grr", "oue", "cms"):
        low, high = (r for r in done.results if r.mechanism == mechanism and r.adversary == "strong")
        assert high.mse < low.mse
        assert high.auc_pn.value > low.auc_pn.value
    assert done.results[-1].auc_pn.value >= max(r.auc_pn.value for r in done.results[:-2])


def test_parameters_are_those_of_the_scenario_where_a_mechanism_has_none(scenario):
    hcms, rappor, olh = variants(scenario, ["hcms", "rappor", "olh"], [2])
    assert hcms.mechanism.parameters == {"epsilon": 2.0, "m": 32, "hashes": 64}
    assert rappor.mechanism.parameters == {"epsilon": 2.0}, "its own hashes are not those of a sketch"
    assert olh.mechanism.parameters == {"epsilon": 2.0}
    (own,) = variants(scenario, ["cms"], [2])
    assert own.mechanism.parameters == {"epsilon": 2.0, "m": 32, "hashes": 64}
    (once,) = variants(scenario, ["identity"], [1, 2])
    assert once.mechanism.parameters == {}


def test_a_parameter_that_is_missing_is_named():
    sparse = parse(SMALL.replace('kind = "cms"', 'kind = "grr"').replace("m = 32\nhashes = 64", ""), name="sparse")
    with pytest.raises(
        InputError, match=r"sparse: mechanism.m: is missing; the mechanism hcms needs it|mechanism hcms"
    ):
        compare(sparse, ["grr", "hcms"], [1], users=5)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"mechanisms": ["grrr"]}, "must be a known mechanism, got 'grrr'; did you mean 'grr'"),
        ({"mechanisms": []}, "at least one mechanism"),
        ({"epsilons": []}, "epsilon: must have at least one value"),
        ({"epsilons": [-1]}, "mechanism.epsilon: must be positive"),
        ({"users": 0}, "users must be at least 1"),
        ({"estimate_from": 0}, "estimate_from must be at least 1"),
    ],
)
def test_bad_options(scenario, options, message):
    asked = {"mechanisms": ["grr"], "epsilons": [1], **options}
    with pytest.raises(InputError, match=re.escape(message)):
        compare(scenario, asked.pop("mechanisms"), asked.pop("epsilons"), **asked)


def test_a_comparison_needs_an_adversary():
    alone = parse(re.sub(r"\[\[adversary\]\][^\[]*", "", SMALL), name="alone")
    with pytest.raises(InputError, match=r"\[\[adversary\]\]"):
        compare(alone, ["grr"], [1])


def test_lists_are_written_with_commas():
    assert words("grr, oue,,") == ["grr", "oue"]
    assert numbers("0.5,1,inf", "epsilon") == [0.5, 1.0, np.inf]
    assert counts("7, 30", "observations") == [7, 30]
    with pytest.raises(InputError, match="epsilon: must be numbers"):
        numbers("1;2", "epsilon")
    with pytest.raises(InputError, match="observations: must be whole numbers"):
        counts("7,1.5", "observations")


def test_the_frontier_is_what_nobody_beats():
    points = [(1, 0.9), (2, 0.5), (3, 0.5), (2, 0.6), (4, 0.1), (1, 0.9), (None, 0.05)]
    records = [choice(mse=mse, auc_pn=(auc_pn, auc_pn)) for mse, auc_pn in points]
    assert [r.pareto_optimal for r in mark_pareto_optimal(records)] == [True, True, False, False, True, True, False]


# Utility


@pytest.mark.parametrize("name", ["grr", "oue", "olh", "hcms"])
def test_measured_errors_are_the_expected_ones(name):
    universe = Universe.sized(400, {"a": 100, "b": 100})
    popularity = zipf(universe, 1.0)
    mechanism = make(name, 400, {"epsilon": 2.0, **({"m": 64, "hashes": 1 << 16} if name == "hcms" else {})})
    found = measure_utility(mechanism, popularity, 5000, np.uint64(SEED))
    frequency = popularity / popularity.sum()
    assert np.mean(standard_errors(mechanism, frequency, 5000) ** 2) == pytest.approx(found.mse_analytical)
    squared, absolute = expected_errors(frequency, mechanism.p_star, mechanism.q_star, 5000)
    if name == "hcms":
        others = np.sum(frequency**2) - frequency**2 - (1 - frequency) / 5000
        squared = squared + others / (mechanism.hashes * (mechanism.m - 1))
    # five draws of 400 errors each, which hang together: by one degree of freedom a draw at the very most
    bound = 4 * np.sqrt(2 * np.square(squared).sum() / 5) / 400 * 3
    assert abs(found.mse - squared.mean()) < bound, (found, bound)
    assert found.mse_analytical == pytest.approx(squared.mean())
    assert found.mae == pytest.approx(absolute.mean(), rel=0.1)


def test_the_closed_form_is_the_binomial_law():
    frequency, p, q, n = np.array([0.0, 0.1, 0.5, 1.0]), 0.7, 0.2, 37
    squared, absolute = expected_errors(frequency, p, q, n)
    for i, f in enumerate(frequency):
        counts = np.arange(n + 1)
        distribution = stats.binom.pmf(counts, n, q + f * (p - q))
        error = (counts - n * q) / (p - q) / n - f
        assert squared[i] == pytest.approx(distribution @ error**2)
        assert absolute[i] == pytest.approx(distribution @ np.abs(error))
    squared, absolute = expected_errors(np.array([0.0, 1.0]), 1.0, 0.0, 10)
    assert not squared.any()
    assert not absolute.any()


def test_a_mechanism_without_an_estimate_has_no_utility():
    class Own:
        universe = 3

    assert measure_utility(Own(), np.ones(3), 10, np.uint64(1)) is None
    assert standard_errors(Own(), np.full(3, 1 / 3), 10) is None


# Words, figure, folder


def line(mechanism, points):
    return [choice(mechanism, mse=mse, auc_pn=(auc_pn, auc_pn)) for mse, auc_pn in points]


def test_mechanisms_are_compared_at_an_error_they_share():
    rmse, aucs = at_equal_error(line("a", [(1.0, 0.2), (0.25, 0.8)]) + line("b", [(0.5, 0.3), (0.1, 0.9)]))
    assert rmse == pytest.approx(np.sqrt(0.25))
    assert aucs == pytest.approx({"a": 0.8, "b": 0.3 + 0.6 * np.log(2) / np.log(5)})
    assert at_equal_error(line("a", [(1.0, 0.2), (0.5, 0.8)]) + line("b", [(0.1, 0.3), (0.2, 0.9)])) is None
    assert at_equal_error(line("a", [(1.0, 0.2), (1e-6, 0.8)]) + line("b", [(1e-3, 0.3), (2e-3, 0.9)])) is None


def test_the_sentence_speaks_of_the_strongest_adversary(done):
    worst = max(done.results, key=lambda record: record.auc_pn.value).adversary
    errors = [replace(record, mse=1 / record.epsilon) for record in done.results]
    said = summary_text(replace(done, results=tuple(errors)))
    assert said.startswith(f"After 10 reports, the {worst} adversary is correct for ")
    assert "(random: 33%). At equal RMSE (" in said
    apart = [replace(record, mse=None) for record in done.results]
    assert summary_text(replace(done, results=tuple(apart))).endswith("(random: 33%).")


def test_the_figure_has_a_line_for_each_mechanism(done):
    chart = pareto_front(done.results, done.non_private, done.estimate_from)
    alt.FacetChart.validate(specification(chart))
    names = [record.adversary for record in done.results]
    assert chart["facet"]["sort"] == list(dict.fromkeys(names))
    points = chart["datasets"]["rows"]
    for adversary in set(names):
        mine = [point for point in points if point["adversary"] == adversary]
        assert list(dict.fromkeys(point["line"] for point in mine)) == ["grr", "oue", "cms", "identity"]
        assert "∞" in {point["epsilon"] for point in mine}
    for record, point in zip(sorted(done.results, key=lambda r: names.index(r.adversary)), points, strict=True):
        assert point["auc_pn"] == pytest.approx(record.auc_pn.value, rel=1e-4)
        assert point["rmse"] == pytest.approx(record.rmse, rel=1e-4)
    assert [level["line"] for level in chart["datasets"]["levels"]] == ["random guess, 1/3", "non-private"]


def test_labels_do_not_touch(done):
    """Points in one place: the first label stands beside its point, others elsewhere, and some are left out."""
    partition = [replace(done.results[0], epsilon=float(e)) for e in range(1, 12)]
    positions = _places(partition)
    assert positions[0] == 0
    assert len({place for place in positions if place >= 0}) == sum(place >= 0 for place in positions)
    assert -1 in positions


def test_a_folder_is_whole_or_not_there(done, tmp_path, monkeypatch):
    done.write(tmp_path / "out")
    page = write_page(done, tmp_path / "out")
    assert {p.name for p in (tmp_path / "out").iterdir()} == {"comparison.html", "comparison.json"}
    html = page.read_text()
    assert not re.search(r'(?:src|href)="(?:https?:)?//', html)
    assert html.count('<div class="chart"') == 1
    content = json.loads((tmp_path / "out" / "comparison.json").read_text())
    assert len(content["results"]) == len(done.results)
    assert content["results"][-1]["epsilon"] == "inf"
    with pytest.raises(InputError, match="is not empty"):
        done.write(tmp_path / "out")

    def full(path, text):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(compare_page, "write_text", full)
    with pytest.raises(InputError, match=r"comparison\.html: cannot write: No space left"):
        write_page(done, tmp_path / "out")
    assert page.read_text() == html
    monkeypatch.setattr("poolscope.workflows.compare.write_text", full)
    with pytest.raises(InputError, match=r"other: cannot write: No space left.*; choose another with `out`"):
        done.write(tmp_path / "other")
    assert [p.name for p in tmp_path.iterdir()] == ["out"]


def test_names_are_escaped(done):
    named = parse(SMALL.replace('"Small"', '"<b>&"'), name="small")
    html = page_of(replace(done, scenario=named))
    assert "<h1>&lt;b&gt;&amp;</h1>" in html


def test_one_choice_is_not_compared_with_itself(done):
    alone = summary_text(replace(done, results=done.results[:1]))
    assert alone.count(" at ε = ") == 1


def test_what_the_intervals_hold_of_estimates_is_said(done):
    """In the figure's caption and over the tables; nothing where nobody estimates."""

    def asked(*names, estimates=""):
        entries = "".join(f'[[adversary]]\nname = "{n}"\npopularity = "estimated"\nestimate_from = 9\n' for n in names)
        entries += f"[attack]\nobservations = [5]\n{estimates}"
        return replace(done, scenario=parse(SMALL.split("[[adversary]]")[0] + entries, name="x"))

    said = "(20 estimates)"
    assert interval_note(asked()) == ""
    assert f"the popularity estimate of a {said}" in interval_note(asked("a"))
    assert f"estimate of a, b and c {said}" in interval_note(asked("a", "b", "c"))
    assert page_of(asked("a")).count(said) == 2
    one = interval_note(asked("a", estimates="estimates = 1"))
    assert one == "Intervals are conditional on one popularity estimate of a for each configuration."


def test_a_mechanism_without_an_estimate_is_shown_without_errors(done):
    lacking = [
        replace(r, **dict.fromkeys(("mse", "mae", "mse_analytical", "mae_analytical"))) for r in done.results[-2:]
    ]
    results = tuple(mark_pareto_optimal([*done.results[:-2], *lacking]))
    html = page_of(replace(done, results=results))
    assert html.partition("<h2>Utility</h2>")[2].count("<td>–</td>") == 6


# The command


def test_the_command(tmp_path):
    (tmp_path / "small.toml").write_text(SMALL)
    asked = ["compare", "small.toml", "--mechanism", "grr,cms", "--users", 50, "--estimate-from", 500]
    ran = poolscope(*asked, "--epsilon", "1,4", "--out", "out", cwd=tmp_path, COLUMNS="80")
    assert ran.returncode == 0, ran.stderr
    assert ran.stderr == ""
    assert "ε = 1, 4 per report\nsynthetic users with uniform interest" in ran.stdout
    for head in ("mechanism", "exposed", "n to 1%", "security", "analytical", "RMSE", "* Pareto-optimal"):
        assert head in ran.stdout
    assert all(len(row) <= 80 for row in ran.stdout.splitlines()[:-1])
    assert load_scenario(tmp_path / "small.toml").title in (tmp_path / "out" / "comparison.html").read_text()
    assert sorted(p.name for p in tmp_path.iterdir()) == ["out", "small.toml"]


def test_the_counts_and_the_threshold_that_are_asked_for(scenario):
    found = compare(scenario, ["grr"], [4], users=20, estimate_from=100, observations=[2, 5], threshold=0.6)
    assert (found.n, found.scenario.overrides) == (5, {"observations": [2, 5], "threshold": 0.6})
    assert all((r.threshold, r.exposed_at) == (0.6, 0.6) for r in found.results)
    assert "It is at least 60% confident about" in summary_text(found)
    assert "--observations 2,5 --threshold 0.6" in page_of(found)


def test_a_bad_command_writes_nothing(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "small.toml").write_text(SMALL)
    asked = ["compare", "small.toml", "--mechanism", "grr"]
    for options, message in (
        (["--epsilon", "1,x"], "must be numbers"),
        (["--epsilon", "1", "--out", "."], "not empty"),
    ):
        error = CliRunner().invoke(app, [*asked, *options]).exception
        assert isinstance(error, InputError)
        assert message in str(error)
    assert [p.name for p in tmp_path.iterdir()] == ["small.toml"]
