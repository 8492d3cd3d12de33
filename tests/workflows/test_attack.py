"""Reports and traces in files against the game and the curator, in bounded memory."""

import os
import tracemalloc

import numpy as np
import polars as pl
import pytest
from cases.report_files import (
    ADVERSARIES,
    ATTACK,
    BASE,
    MECHANISMS,
    WEAK,
    game_traces,
    scenario_of,
    small_attack,
    write_traces,
)
from cases.synthetic import SEED

from poolscope import Progress
from poolscope.core.errors import InputError
from poolscope.core.executors import Local
from poolscope.game.game import play
from poolscope.kernels.decision import TIE
from poolscope.reports import checks, misfit
from poolscope.reports.files import read_reports
from poolscope.reports.frequencies import frequencies
from poolscope.scenario.build import build_game, build_mechanism
from poolscope.workflows import obfuscate as obfuscating
from poolscope.workflows.attack.attack import attack
from poolscope.workflows.attack.partitioning import name_hashes
from poolscope.workflows.estimate import estimate
from poolscope.workflows.obfuscate import Obfuscated, obfuscate


@pytest.mark.default_cases("cms-*", "hcms-parquet-interleaved", "identity-csv-sorted")
@pytest.mark.parametrize("interleaved", [False, True], ids=["sorted", "interleaved"])
@pytest.mark.parametrize("ending", ["parquet", "csv"])
@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_obfuscate_then_attack_is_the_game(tmp_path, mechanism, ending, interleaved):
    """With the same seed every bit is the same: reports, the curator's draws, posteriors, guesses but for ties."""
    scenario, seed, users = scenario_of(tmp_path, mechanism=mechanism), 5, 40
    # a file meets one estimate of the popularity
    scenario = scenario.replace({"attack.estimates": 1})
    game = build_game(scenario, seed)
    write_traces(tmp_path / f"traces.{ending}", game_traces(game, users, seed), interleaved=interleaved)
    reports, out = tmp_path / f"reports.{ending}", tmp_path / f"posteriors.{ending}"
    made = obfuscate(tmp_path / f"traces.{ending}", scenario, reports, seed)
    assert made == Obfuscated(users=users, reports=users * game.horizon)
    summary = attack(reports, scenario, seed=seed, out=out)
    assert (summary.users, summary.reports) == (users, users * game.horizon)

    found = pl.read_csv(out) if ending == "csv" else pl.read_parquet(out)
    found = found.with_columns(pl.col("user").cast(pl.Int64))
    expected = play(game, users, seed).with_columns(pl.col("adversary", "guess", "pool").cast(pl.String))
    # whatever the file, integers or texts, sorted or interleaved
    assert found["user"].unique(maintain_order=True).to_list() == by_hash(range(users))
    both = found.join(expected, on=["user", "adversary", "n"], suffix=".game")
    assert len(both) == len(found) == len(expected)
    top = pl.max_horizontal("^posterior\\..*$") * (1 - TIE)
    tied = both.select(pl.sum_horizontal(pl.col("^posterior\\..*$") >= top)).to_series() > 1
    assert (both["guess"] == both["guess.game"]).filter(~tied).all()
    assert all(row[f"posterior.{row['guess']}"] >= row["confidence"] * (1 - TIE) for row in both.rows(named=True))
    assert (both["confidence"] == both["confidence.game"]).all()
    of_truth = [row[f"posterior.{row['pool']}"] for row in both.iter_rows(named=True)]
    assert of_truth == both["posterior_true"].to_list()
    np.testing.assert_allclose(found.select(pl.sum_horizontal("^posterior.*$")), 1)


def by_hash(users):
    """The users in the order of the output."""
    hashes = name_hashes(pl.Series(list(users)))
    return [user for _, user in sorted(zip(hashes.tolist(), users, strict=True))]


def posteriors(scenario, path, **options):
    out = path.with_name("posteriors.parquet")
    attack(path, scenario, out=out, overwrite=True, **options)
    return pl.read_parquet(out)


def test_the_table_is_the_contract(tmp_path):
    scenario, path = small_attack(tmp_path)
    found = posteriors(scenario, path)
    pools = ["posterior.a", "posterior.b", "posterior.c"]
    exposed = ["exposed_at_50", "exposed_at_90", "exposed_at_95"]
    assert found.columns == ["user", "adversary", "n", "guess", "confidence", *exposed, *pools]
    reports = pl.read_parquet(path)
    order = by_hash(reports["user"].unique())
    counts = dict(reports.group_by("user").len().iter_rows())
    asked = {user: sorted({min(n, counts[user]) for n in (3, 10)}) for user in order}
    wanted = [(user, who, n) for user in order for who in ("weak", "strong") for n in asked[user]]
    assert found.select("user", "adversary", "n").rows() == wanted
    largest = found.select(pl.concat_list(pools).list.arg_max()).to_series()
    assert found["guess"].to_list() == ["abc"[i] for i in largest]
    assert (found["confidence"] == found.select(pl.max_horizontal(pools)).to_series()).all()


def test_without_an_attack_table_all_reports_are_used(tmp_path):
    scenario, path = small_attack(tmp_path, attack="")
    counts = dict(pl.read_parquet(path).group_by("user").len().iter_rows())
    found = posteriors(scenario, path)
    assert found["n"].to_list() == [counts[u] for u in found["user"]]
    # somebody with two reports is scored alike whoever else is in the file
    user = next(user for user, count in counts.items() if count > 3)
    alone = tmp_path / "alone.parquet"
    pl.read_parquet(path).filter(user=user).write_parquet(alone)
    for a, b in zip(found.filter(user=user).iter_rows(), posteriors(scenario, alone).iter_rows(), strict=True):
        assert a[:4] == b[:4]
        assert a[4:] == pytest.approx(b[4:], abs=1e-12)


def test_a_threshold_marks_no_guess(tmp_path):
    scenario, path = small_attack(tmp_path)
    sure = posteriors(scenario, path)
    tau = float(sure["confidence"].median())
    found = posteriors(scenario, path, threshold=tau)
    assert found["guess"].is_null().equals(found["confidence"] < tau)
    assert found.drop("guess", "exposed_at_threshold").equals(sure.drop("guess"))
    summary = attack(path, scenario, threshold=tau)
    for row in summary.results:
        # of each user the largest count up to this one
        mine = found.filter(pl.col("adversary") == row.adversary, pl.col("n") <= row.n)
        own = mine.filter(pl.col("n") == pl.col("n").max().over("user"))
        assert row.no_guess == own["guess"].null_count()
        assert row.guesses == {pool: (own["guess"] == pool).sum() for pool in "abc"}
        assert row.confidence == pytest.approx(own["confidence"].mean())
        assert row.confident_at_threshold[0.5] == (own["confidence"] >= 0.5).sum()
        assert row.reports == own["n"].sum()
    assert summary.preview == found.head(12).rows(named=True)
    # the scenario's own threshold where nobody says another
    scenario, path = small_attack(tmp_path, attack=f"{ATTACK}threshold = {tau}\n")
    assert posteriors(scenario, path).equals(found)
    with pytest.raises(InputError, match=r"threshold: must be from 0 to 1, got 1\.5"):
        attack(path, scenario, threshold=1.5)


def test_other_pools(tmp_path):
    """Pools of a file are as good as the same pools of the scenario."""
    other = tmp_path / "pools.csv"
    other.write_text("object,pool\n" + "".join(f"{i},{'xy'[i % 2]}\n" for i in range(20)) + "25,\n")
    own = "pools = { x = [" + ", ".join(map(str, range(0, 20, 2))) + "], y = ['1:20:2'] }\n"
    adversaries = ADVERSARIES.replace("estimate_from = 2000\n", "estimate_from = 2000\n" + own)
    scenario, path = small_attack(tmp_path)
    found = posteriors(scenario, path, pools=other)
    assert found.columns[8:] == ["posterior.x", "posterior.y"]
    scenario, path = small_attack(tmp_path, adversaries=adversaries)
    both = posteriors(scenario, path)
    assert both.columns[8:] == ["posterior.a", "posterior.b", "posterior.c", "posterior.x", "posterior.y"]
    strong = both.filter(adversary="strong")
    assert strong.select(found.columns).equals(found.filter(adversary="strong"))
    assert strong["posterior.a"].null_count() == len(strong)
    assert both.filter(adversary="weak")["posterior.x"].null_count() == len(strong)
    for rows, message in (
        (
            "30,x\n1,y\n",
            r"pools\.csv: row 1: object must be an object of the universe, a number from 0 to 29, got '30'",
        ),
        ("1,x\n2,y\n1,x\n", r"pools\.csv: row 3: an object must be listed once, row 1 has it too, got '1'"),
        ("1,x\n2,y\n1,y\n", r"row 3: an object must be in one pool, row 1 and this one say 'x' and 'y', got '1'"),
        ("1,x\n2,x\n", r"pools\.csv: pools: must be at least two, got \['x'\]"),
    ):
        other.write_text("object,pool\n" + rows)
        with pytest.raises(InputError, match=message):
            attack(path, scenario, pools=other)


CURIOUS = "[[adversary]]\nname = 'curious'\npopularity = 'estimated'\n"


@pytest.mark.parametrize("method", [None, "linear", "ibu"])
def test_popularity_from_the_attacked_reports_themselves(tmp_path, method):
    curious = CURIOUS + (f"method = '{method}'\n" if method else "")
    scenario, path = small_attack(tmp_path, adversaries=curious, base=BASE.split("[popularity]")[0])
    universe = scenario.universe()
    about = build_mechanism(scenario, universe)
    learned = frequencies(about, read_reports(path, about, universe)[1], method).popularity
    frame = pl.DataFrame({"object": np.arange(30), "popularity": learned})
    frame.write_csv(tmp_path / "learned.csv")
    given = CURIOUS.replace("'estimated'", "'given'\nfile = 'learned.csv'")
    found = posteriors(scenario, path)
    scenario, path = small_attack(tmp_path, adversaries=given)
    expected = posteriors(scenario, path)
    np.testing.assert_allclose(found.select("^posterior.*$"), expected.select("^posterior.*$"), atol=1e-12)


@pytest.mark.parametrize(
    ("adversaries", "message"),
    [
        ("", r"must have a table \[\[adversary\]\]"),
        (CURIOUS + "estimate_from = 5\n", r"adversary\[0\]: popularity 'estimated' requires a table \[popularity\]"),
        (CURIOUS.replace("estimated", "true"), r"adversary\[0\]: popularity 'true' requires a table \[popularity\]"),
    ],
)
def test_what_an_attack_without_popularity_cannot_do(tmp_path, adversaries, message):
    scenario, path = small_attack(tmp_path, adversaries=adversaries, base=BASE.split("[popularity]")[0])
    with pytest.raises(InputError, match=message):
        attack(path, scenario)


def test_a_game_has_no_reports_to_learn_from(tmp_path):
    with pytest.raises(InputError, match=r"small.toml: adversary\[0\]: must have estimate_from; only attack"):
        build_game(scenario_of(tmp_path, adversaries=CURIOUS), 0)


BOUND = 4 << 20


@pytest.mark.slow
@pytest.mark.parametrize("interleaved", [False, True], ids=["sorted", "interleaved"])
def test_a_file_larger_than_the_bound(tmp_path, monkeypatch, interleaved):
    mechanism = "kind = 'cms'\nepsilon = 4\nm = 4096\nhashes = 64\n"
    scenario = scenario_of(tmp_path, mechanism=mechanism, adversaries=CURIOUS + ADVERSARIES)
    traces = np.random.default_rng(SEED).integers(30, size=(2900, 12))
    write_traces(tmp_path / "traces.parquet", traces, names=lambda u: f"user {u}", interleaved=interleaved)
    path = tmp_path / "reports.parquet"
    obfuscate(tmp_path / "traces.parquet", scenario, path)
    assert path.stat().st_size > 4 * BOUND
    expected = posteriors(scenario, path)
    # the checks of the reports hold a window of them, whatever the bound; what is loaded once is not held for users
    monkeypatch.setattr(misfit, "MAX_REPORTS", 1 << 7)
    monkeypatch.setattr(checks, "MAX_REPORTS", 1 << 7)
    posteriors(scenario, path, max_bytes=BOUND)
    peaks = []
    for _ in range(2):
        # once in a while the interpreter's own table of interned names grows by megabytes, but not twice in a row
        tracemalloc.start()
        found = posteriors(scenario, path, max_bytes=BOUND)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
        assert found.equals(expected)
    peak = min(peaks)
    assert peak < BOUND, f"{peak / 2**20:.1f} MiB held of a bound of {BOUND >> 20} MiB"
    assert sorted(p.name for p in tmp_path.iterdir()) == [
        "posteriors.parquet",
        "reports.parquet",
        "small.toml",
        "traces.parquet",
    ]


LOOKS = ["user,value\na,1\n", "user,value\na,1\na,2\na,3\na,4\n", "user,value\nb,1\nb,2\nb,3\n"]


@pytest.mark.default_cases("csv-*-one look", "parquet-*-two looks")
@pytest.mark.parametrize("adversaries", [WEAK, CURIOUS], ids=["one look", "two looks"])
@pytest.mark.parametrize("now", LOOKS, ids=["fewer", "more", "others"])
@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_a_file_must_not_change_while_it_is_read(tmp_path, now, ending, adversaries):
    scenario = scenario_of(tmp_path, mechanism="identity", adversaries=adversaries)
    path = tmp_path / f"reports.{ending}"

    def write(text):
        frame = pl.read_csv(text.encode())
        frame.write_csv(path) if ending == "csv" else frame.write_parquet(path)

    changing = Progress()
    changing.begin = lambda _: write(now)
    write("user,value\na,1\na,2\na,3\n")
    os.utime(path, ns=(0, 0))
    with pytest.raises(InputError, match=rf"reports\.{ending}: must not change while it is read"):
        attack(path, scenario, progress=changing)
    assert sorted(os.listdir(tmp_path)) == [f"reports.{ending}", "small.toml"]


def test_reports_depend_on_seed_user_and_place_only(tmp_path):
    scenario = scenario_of(tmp_path)
    traces = np.random.default_rng(SEED).integers(30, size=(30, 8))
    write_traces(tmp_path / "sorted.parquet", traces)
    write_traces(tmp_path / "mixed.csv", traces, interleaved=True)
    obfuscate(tmp_path / "sorted.parquet", scenario, tmp_path / "one.parquet", 1)
    obfuscate(tmp_path / "mixed.csv", scenario, tmp_path / "two.parquet", 1, engine=Local(threads=1))
    obfuscate(tmp_path / "sorted.parquet", scenario, tmp_path / "three.parquet", 2)
    one, two, three = (pl.read_parquet(tmp_path / f"{n}.parquet") for n in ("one", "two", "three"))
    assert (
        two.with_columns(pl.col("user").cast(pl.Int64))
        .sort("user", maintain_order=True)
        .drop("user")
        .equals(one.drop("user"))
    )
    assert not one.equals(three)
    assert one.columns == ["user", "hash", "bits"]


def test_parts_are_joined_in_order(tmp_path, monkeypatch):
    scenario = scenario_of(tmp_path)
    traces = np.random.default_rng(SEED).integers(30, size=(30, 8))
    write_traces(tmp_path / "traces.parquet", traces)
    obfuscate(tmp_path / "traces.parquet", scenario, tmp_path / "whole.parquet")
    monkeypatch.setattr(obfuscating, "BLOCK_ROWS", 7)
    obfuscate(tmp_path / "traces.parquet", scenario, tmp_path / "parts.parquet")
    assert pl.read_parquet(tmp_path / "parts.parquet").equals(pl.read_parquet(tmp_path / "whole.parquet"))


@pytest.mark.default_cases("grr")
@pytest.mark.parametrize(
    "mechanism",
    ["kind = 'cms'\nepsilon = 2\nm = 1024\nhashes = 65536\n", "kind = 'grr'\nepsilon = 2\n"],
    ids=["cms", "grr"],
)
def test_the_estimate_is_as_good_as_it_says(tmp_path, mechanism):
    """95 % of the counts are within 1.96 standard errors; the bound is four standard errors of that share itself.

    Counts of one run are hardly correlated: a report supports each object nearly independently.
    """
    scenario = scenario_of(tmp_path, mechanism=mechanism)
    rng = np.random.default_rng(SEED)
    objects = rng.choice(30, p=scenario.true_popularity(scenario.universe()), size=10_000)
    pl.DataFrame({"user": np.arange(len(objects)) // 10, "object": objects}).write_parquet(tmp_path / "traces.parquet")
    truth, scores = np.bincount(objects, minlength=30), []
    for seed in range(8):
        reports, out = tmp_path / f"reports-{seed}.parquet", tmp_path / f"popularity-{seed}.csv"
        obfuscate(tmp_path / "traces.parquet", scenario, reports, seed)
        summary = estimate(reports, scenario, out)
        table = pl.read_csv(out)
        assert summary.reports == len(objects)
        scores.append((table["count"].to_numpy() - truth) / table["standard_error"].to_numpy())
    covered = np.mean(np.abs(scores) <= 1.96)
    error = np.sqrt(0.95 * 0.05 / np.size(scores))
    assert abs(covered - 0.95) < 4 * error, f"{covered:.3f} covered, standard error {error:.3f}"
    assert table.columns == ["object", "pool", "count", "standard_error", "popularity", "frequency"]
    assert table["object"].to_list() == list(range(30))
    assert table["pool"].to_list() == ["a"] * 5 + ["b"] * 6 + ["c"] * 7 + [None] * 12
    assert table["popularity"].sum() == pytest.approx(1)
    assert table["popularity"].min() >= 0
    np.testing.assert_allclose(table["frequency"], table["count"] / len(objects))
