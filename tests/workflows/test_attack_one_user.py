"""The attack for people: one user report by report, the surest users, guesses against the truth, who is exposed."""

import numpy as np
import polars as pl
import pytest
from cases.report_files import WEAK, scenario_of
from cases.synthetic import SEED
from typer.testing import CliRunner

from poolscope import posterior
from poolscope.cli.commands import app
from poolscope.core.errors import InputError
from poolscope.core.executors import Local
from poolscope.core.tables.sources import DEFAULT
from poolscope.reports.files import read_reports
from poolscope.scenario.build import build_mechanism
from poolscope.workflows.attack.attack import attack
from poolscope.workflows.attack.one_user import attack_user
from poolscope.workflows.attack.preparation import prepare_attack
from poolscope.workflows.obfuscate import obfuscate

CURIOUS = WEAK + '[[adversary]]\nname = "curious"\npopularity = "estimated"\n'
LENGTHS = (2, 6, 12, 14)


@pytest.fixture
def folder(tmp_path):
    """Users of unequal numbers of reports; the scenario asks for 3 and 10."""
    scenario = scenario_of(tmp_path, adversaries=CURIOUS)
    rng = np.random.default_rng(SEED)
    rows = [(f"user {u}", int(z)) for u in range(40) for z in rng.integers(5, size=LENGTHS[u % 4])]
    pl.DataFrame(rows, schema=["user", "object"], orient="row").write_csv(tmp_path / "traces.csv")
    obfuscate(tmp_path / "traces.csv", scenario, tmp_path / "reports.parquet", SEED)
    return tmp_path, scenario


def table(folder, scenario, **options):
    found = attack(folder / "reports.parquet", scenario, out=folder / "out.parquet", **options)
    return found, pl.read_parquet(folder / "out.parquet")


def test_no_count_stands_twice(folder):
    _, rows = table(*folder)
    assert not rows.select("user", "adversary", "n").is_duplicated().any()
    counts = rows.group_by("user").agg(pl.col("n").unique().sort())
    wanted = {2: [2], 6: [3, 6], 12: [3, 10], 14: [3, 10]}
    for user, found in counts.iter_rows():
        assert found == wanted[LENGTHS[int(user.split()[1]) % 4]]


def test_exposed_is_the_first_report_with_that_confidence(folder):
    path, scenario = folder
    _, rows = table(path, scenario, threshold=0.6)
    last = rows.filter(pl.col("n") == pl.col("n").max().over("user", "adversary"))
    assert last["exposed_at_50"].null_count() < last.height
    for user in ("user 1", "user 2", "user 3"):
        story = attack_user(path / "reports.parquet", scenario, user).table.filter(pl.col("n") <= 10)
        for name in ("weak", "curious"):
            sure = story.filter(pl.col("adversary") == name).select(pl.max_horizontal("^posterior\\..*$")).to_series()
            (row,) = last.filter(pl.col("user") == user, pl.col("adversary") == name).iter_rows(named=True)
            for column, level in (("exposed_at_50", 0.5), ("exposed_at_threshold", 0.6), ("exposed_at_90", 0.9)):
                hits = np.flatnonzero(sure.to_numpy() >= level)
                assert row[column] == (hits[0] + 1 if len(hits) else None)


def test_a_story_ends_in_the_posterior_of_the_library(folder):
    path, scenario = folder
    story = attack_user(path / "reports.parquet", scenario, "user 3", out=path / "story.csv")
    assert story.reports == LENGTHS[3]
    mechanism = build_mechanism(scenario, scenario.universe())
    users, reports = read_reports(path / "reports.parquet", mechanism, scenario.universe())
    own = {name: column[(users == "user 3").to_numpy()] for name, column in reports.items()}
    with prepare_attack(path / "reports.parquet", DEFAULT, scenario, None, None, 0, 1 << 30, Local(), path) as ready:
        adversaries = ready.scorer.adversaries
    for adversary in adversaries:
        mine = story.table.filter(pl.col("adversary") == adversary.name)
        expected = posterior(mechanism, own, adversary)
        assert np.allclose(mine.select("^posterior\\..*$").to_numpy(), expected[1:], atol=1e-9)
        factors = np.exp(mine.select("^log_bayes_factor\\..*$").to_numpy())
        assert factors.shape == expected[1:].shape
        assert np.allclose(factors.mean(axis=1), 1), "a Bayes factor is against the mean of the pools"
    assert pl.read_csv(path / "story.csv").shape == story.table.shape


def test_what_is_popular_is_learnt_from_all_users(folder):
    path, scenario = folder
    alone = pl.read_parquet(path / "reports.parquet").filter(pl.col("user") == "user 3")
    alone.write_parquet(path / "alone.parquet")
    of_all = attack_user(path / "reports.parquet", scenario, "user 3").table
    of_one = attack_user(path / "alone.parquet", scenario, "user 3").table
    same = [a.equals(b) for a, b in zip(*(t.partition_by("adversary") for t in (of_all, of_one)), strict=True)]
    assert same == [True, False], "weak estimates nothing, curious does"


def test_the_surest_are_those_of_the_table(folder):
    found, rows = table(*folder, top=5)
    last = rows.filter(pl.col("n") == pl.col("n").max().over("user", "adversary"))
    for name in ("weak", "curious"):
        mine = [row["confidence"] for row in found.top if row["adversary"] == name]
        expected = last.filter(pl.col("adversary") == name)["confidence"].sort(descending=True).head(5)
        assert mine == expected.to_list()
    assert [row["adversary"] for row in found.top] == ["weak"] * 5 + ["curious"] * 5


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_guesses_are_held_against_the_truth(folder, ending):
    path, scenario = folder
    _, rows = table(path, scenario)
    last = rows.filter(pl.col("n") == pl.col("n").max().over("user", "adversary"), pl.col("adversary") == "weak")
    # as if weak were right about all users but two, and two more were not known
    truth = last.select("user", pool="guess").sort("user")
    wrong = pl.when(pl.col("pool") == "a").then(pl.lit("b")).otherwise(pl.lit("a"))
    truth = truth.with_columns(pool=pl.when(pl.int_range(pl.len()) < 2).then(wrong).otherwise("pool"))[:-2]
    truth.write_csv(path / "truth.csv")
    found = attack(path / "reports.parquet", scenario, out=path / f"again.{ending}", ground_truth=path / "truth.csv")
    weak, curious = found.evaluation
    assert (weak.adversary, weak.users, weak.guessed) == ("weak", 38, 38)
    assert weak.precision.value == pytest.approx(36 / 38)
    assert weak.ece.value > weak.ece_null_p95, "right far more often than it thought"
    assert curious.users == 38


def test_what_cannot_be_asked(folder):
    path, scenario = folder
    reports = path / "reports.parquet"
    with pytest.raises(InputError, match=r"reports.parquet: user: must be a user of the file, got 'nobody'"):
        attack_user(reports, scenario, "nobody")
    with pytest.raises(InputError, match="truth: must have `out`"):
        attack(reports, scenario, ground_truth=path / "truth.csv")
    with pytest.raises(InputError, match="top: must be from 0 to 1,000,000, got -1"):
        attack(reports, scenario, top=-1)
    (path / "truth.csv").write_text("user,pool\nsomebody,a\n")
    with pytest.raises(InputError, match="truth: must have users of the reports"):
        attack(reports, scenario, out=path / "o.csv", ground_truth=path / "truth.csv")
    assert not (path / "o.csv").exists()
    (path / "truth.csv").write_text("user,pool\nuser 1,a\nuser 1,b\n")
    with pytest.raises(InputError, match=r"truth.csv: row 2: a user must be listed once, got 'user 1'"):
        attack(reports, scenario, out=path / "o.csv", ground_truth=path / "truth.csv")


ABOUT_ALL = {
    "observations": "7",
    "threshold": "0.9",
    "top": "3",
    "ground-truth": "t.csv",
    "html": "p.html",
    "link-scores": "l.csv",
    "linked-out": "j.csv",
    "attack": "averaging",
}


@pytest.mark.parametrize("more", [[f"--{name}", value] for name, value in ABOUT_ALL.items()])
def test_one_user_is_not_all_users(more):
    error = CliRunner().invoke(app, ["attack", "r.csv", "--scenario", "apple-emojis", "--user", "a", *more]).exception
    assert isinstance(error, InputError)
    *most, last = (f"`{name.replace('-', '_')}`" for name in ABOUT_ALL)
    assert str(error) == f"--user: must stand alone: {', '.join(most)} and {last} are about all users"
