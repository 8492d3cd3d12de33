"""The paper's experiments: every published number and figure is a subject, none can rot, agreement is evaluation."""

import json
import re

import numpy as np
import polars as pl
import pytest
from markupsafe import escape

from poolscope.cli.folders import pictures_of
from poolscope.core.errors import InputError
from poolscope.core.executors import Local
from poolscope.core.progress import SILENT
from poolscope.metrics.intervals import Estimate
from poolscope.metrics.provenance import provenance_of
from poolscope.paper import experiments, runner
from poolscope.paper import report as reproduction
from poolscope.paper.report import verdict, write_page
from poolscope.paper.reproduce import reproduce
from poolscope.paper.rerun import rerun_reproduction
from poolscope.paper.runner import read_reproduction
from poolscope.population.builtin import builtin_universe
from poolscope.population.recorded import write_rows
from poolscope.scenario.scenario import load_scenario

FEW = 60


def published_numbers(value, path=()):
    """Paths of all published values, as cells name them."""
    if isinstance(value, dict):
        for key, entry in value.items():
            if key != "columns":
                yield from published_numbers(entry, (*path, key))
    elif isinstance(value, list):
        for i, entry in enumerate(value):
            yield from published_numbers(entry, (*path, i))
    else:
        yield path


def test_every_published_number_is_the_subject_of_a_cell():
    published = experiments.published()
    wanted = {path for part in ("tables", "text") for path in published_numbers(published[part], (part,))}
    cells = {cell.published for e in experiments.experiments().values() for cell in e.cells if cell.published}
    assert cells == wanted


def test_every_figure_is_made():
    assert set(experiments.published()["figures"]) == {figure.label for figure in experiments.figures() if figure.label}
    assert {figure.kind for figure in experiments.figures()} == set(reproduction.KINDS)


def test_plays_are_valid_scenarios_of_the_papers_size():
    plays = experiments.plays()
    for experiment in experiments.experiments().values():
        assert set(experiment.plays) <= plays.keys(), experiment.name
    for play in plays.values():
        scenario = load_scenario(play.scenario).replace(play.change, name=play.name)
        assert scenario.universe().k >= 2
    assert plays["emojis"].users == plays["web-domains"].users == plays["epsilon 0.01"].users == 150_000
    assert plays["entropy 400 0.5"].change["popularity.exponent"] == 0.5
    assert len([name for name in plays if name.startswith("entropy")]) == 20


@pytest.mark.parametrize(
    ("published", "low", "high", "agrees"),
    [
        (0.40, 0.386, 0.39, True),
        (0.40, 0.36, 0.38, False),
        (0.40, 0.42, 0.44, False),
        ("more than 0.80", 0.7, 0.79, True),
        ("more than 0.80", 0.6, 0.7, False),
        ("less than 0.20", 0.1, 0.3, True),
        ("less than 0.20", 0.3, 0.4, False),
        ("0.82 to 0.90", 0.7, 0.8, False),
        ("0.82 to 0.90", 0.85, 0.86, True),
    ],
)
def test_agreement(published, low, high, agrees):
    assert runner.agrees(published, Estimate((low + high) / 2, low, high), 0.015, 0.0) is agrees


def test_relative_agreement_of_errors():
    ours = Estimate(1.0, 0.99, 1.01)
    assert runner.agrees(1.05, ours, 0.0, 0.05)
    assert not runner.agrees(1.08, ours, 0.0, 0.05)
    assert runner.agrees(1.15, ours, 0.0, 0.15)


# what takes long whatever the number of users: large universes and the curator's largest collections
HEAVY = {"universe": ["1000"], "hcms": [], "hcms-oracle": [], "utility-mae": ["8"], "utility-mape": ["8"]}


@pytest.fixture(scope="module")
def reproduced(tmp_path_factory):
    """A small version of every experiment."""
    small = {}
    for name, experiment in experiments.experiments().items():
        cells = [
            cell
            for cell in experiment.cells
            if name not in HEAVY or (cell.row in HEAVY[name] and cell.arguments.get("reports", 0) <= 1e6)
        ]
        small[name] = experiments.Experiment(name=name, title=experiment.title, cells=cells, new=experiment.new)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(experiments, "experiments", lambda: small)
        folder = tmp_path_factory.mktemp("paper")
        traces = folder / "traces.csv"
        write_rows(traces, traces.suffix, *recorded_emojis())
        return folder / "out", reproduce(out=folder / "out", users=FEW, traces=traces, html=False)


def recorded_emojis():
    """Forty users of twenty emojis each: a neutral one now and then, else a tone of their own."""
    universe = builtin_universe("emoji-11")
    rng = np.random.default_rng(5)
    users, objects = [], []
    for user in range(40):
        tone = rng.integers(universe.k)
        for _ in range(20):
            pool = -1 if rng.random() < 0.3 else tone
            objects.append(universe.objects[rng.choice(np.flatnonzero(universe.pool_of == pool)[:5])])
            users.append(f"user {user}")
    return users, objects


@pytest.mark.slow
def test_a_small_version_of_every_experiment_plays(reproduced):
    out, done = reproduced
    kept = json.loads((out / "reproduction.json").read_text())["cells"]
    assert len(kept) == len(done.cells)
    for cell in kept:
        assert list(cell) == ["experiment", "row", "column", "published", "ours", "low", "high", "agrees"]
    judged = [cell for cell in done.cells if cell.agrees is not None and cell.experiment != "recorded-text"]
    # with few users the intervals are wide, so nearly all agree; exact values and utility must
    assert sum(cell.agrees for cell in judged) >= 0.95 * len(judged)
    assert all(cell.agrees for cell in done.cells if cell.experiment in ("entropy-values", "utility-mae"))
    assert "published values agree" in verdict(done)


@pytest.mark.slow
def test_the_page_has_every_table_and_figure(reproduced):
    out, done = reproduced
    html = write_page(done, out).read_text()
    for name in dict.fromkeys(cell.experiment for cell in done.cells):
        assert f'id="{name}"' in html
    assert html.count('<div class="chart"') == len(experiments.figures())
    for figure in experiments.figures():
        # in words, and of the adversary that is shown
        assert not re.search(r"fig:|_|\\", figure.title)
        assert figure.adversary is None or figure.adversary in figure.title
        assert str(escape(figure.title)) in html


@pytest.mark.slow
def test_the_figures_of_a_folder_are_those_of_its_page(reproduced):
    out, done = reproduced
    found = pictures_of(out)
    assert [picture.title for picture in found] == [figure.title for figure in experiments.figures()]
    for one, other in zip(found, reproduction.pictures(done.played), strict=True):
        assert one.name == other.name
        assert one.chart["datasets"] == other.chart["datasets"]


@pytest.mark.slow
def test_a_stopped_reproduction_goes_on(reproduced):
    out, _ = reproduced
    before = {p: p.stat().st_mtime_ns for p in out.rglob("*.parquet")}
    again = reproduce(["emojis"], out, users=FEW, html=False)
    assert {p: p.stat().st_mtime_ns for p in out.rglob("*.parquet")} == before
    assert pl.DataFrame(again.cells).height == 12
    with pytest.raises(InputError, match="another seed or number of users"):
        reproduce(["emojis"], out, users=FEW + 1)


@pytest.mark.slow
def test_hcms_plays_on_a_small_universe():
    """The heavy plays' scenarios, made small."""
    from poolscope.game.game import play
    from poolscope.scenario.build import build_game

    for name in ("hcms", "cms 4"):
        chosen = experiments.plays()[name]
        change = {**chosen.change, "universe.size": 500}
        outcomes = play(build_game(load_scenario(chosen.scenario).replace(change, name=name), 0), 20, 0)
        assert set(outcomes["adversary"].unique()) == {"weak", "oracle"}


@pytest.mark.slow
def test_names_and_folder_have_defaults(tmp_path, monkeypatch):
    """All experiments into the folder of the command; a name stands for a list of it, a text for a path."""
    found = experiments.experiments()
    monkeypatch.setattr(experiments, "experiments", lambda: {name: found[name] for name in ("no-hash", "emojis")})
    monkeypatch.chdir(tmp_path)
    done = reproduce(users=2, html=False)
    assert {cell.experiment for cell in done.cells} == {"no-hash", "emojis"}
    assert (tmp_path / "poolscope-reproduction" / "reproduction.json").exists()
    done = reproduce("emojis", out="poolscope-reproduction", users=2)
    assert {cell.experiment for cell in done.cells} == {"emojis"}
    assert (tmp_path / "poolscope-reproduction" / "reproduction.html").exists()


def test_a_reproduction_that_is_resumed_elsewhere_says_so(tmp_path):
    reproduce("no-hash", tmp_path, users=2, html=False)
    path = tmp_path / "reproduction-settings.json"
    kept = json.loads(path.read_text())
    path.write_text(json.dumps(kept | {"provenance": kept["provenance"] | {"numba": "0.1.0"}}))
    with pytest.warns(UserWarning, match=r": now numba .* instead of 0\.1\.0$"):
        done = reproduce("no-hash", tmp_path, users=2, html=False)
    assert done.provenance.numba == "0.1.0"
    assert [one.numba for one in done.provenance.resumed_with] == [kept["provenance"]["numba"]]
    assert read_reproduction(tmp_path).provenance == done.provenance
    path.write_text(json.dumps(kept | {"provenance": kept["provenance"] | {"version": "0.2.0"}}))
    with pytest.raises(InputError, match=r"the run to resume was made by version 0\.2\.0"):
        reproduce("no-hash", tmp_path, users=2, html=False)


@pytest.mark.slow
def test_recorded_experiments_are_played_again(tmp_path):
    traces = tmp_path / "traces.csv"
    write_rows(traces, traces.suffix, *recorded_emojis())
    reproduce("recorded", tmp_path / "out", users=2, traces=traces, html=False)
    assert rerun_reproduction(tmp_path / "out", tmp_path, Local(), SILENT).agrees


def test_recorded_experiments_need_traces(tmp_path):
    with pytest.raises(InputError, match="needs recorded traces"):
        reproduce(["recorded"], tmp_path / "out")
    assert "recorded" not in [e.name for e in experiments.chosen([], with_traces=False)]


def test_unknown_experiments_suggest_the_nearest(tmp_path):
    with pytest.raises(InputError, match="did you mean 'emojis'"):
        reproduce(["emoji"], tmp_path / "out")


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("reproduction-settings.json", "{", r"settings\.json: line 1: must be JSON"),
        ("utility/apple-web-domains-1e+06.json", "[", r"line 1: must be JSON"),
        (
            "utility/apple-web-domains-1e+06.json",
            '{"4": {"mae": 1}}',
            r"json: must be the errors of a simulation",
        ),
    ],
)
def test_a_damaged_folder_is_told(tmp_path, name, content, message):
    (tmp_path / "utility").mkdir()
    settings = {"users": 5, "seed": 0, "provenance": provenance_of(seed=0, users=5).as_json()}
    (tmp_path / "reproduction-settings.json").write_text(json.dumps(settings))
    (tmp_path / name).write_text(content)
    with pytest.raises(InputError, match=message):
        reproduce(["utility-mae"], tmp_path, users=5)
