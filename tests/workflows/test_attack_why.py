"""The analyst's questions: top users in order, why they are there, what is expected, and how many pools were tried."""

import json

import numpy as np
import polars as pl
import pytest
from cases.command_line import poolscope
from cases.report_files import ADVERSARIES, game_traces, scenario_of, write_traces
from cases.synthetic import SEED
from jsonschema import Draft202012Validator

import poolscope as ps
from poolscope.cli.schemas import schema_of
from poolscope.core.errors import InputError
from poolscope.inference.adversary import report_likelihoods, stacked_pool_weights
from poolscope.inference.multiplicity import log_set_bayes_factor
from poolscope.reports.files import read_reports
from poolscope.workflows.attack.one_user import attack_user

USERS = 15


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A scenario, and the reports of users of its own game."""
    made = tmp_path_factory.mktemp("why")
    scenario = scenario_of(made, attack="[attack]\nobservations = [10, 40]\nnon_private = false\n")
    write_traces(made / "traces.parquet", game_traces(scenario.game(SEED), USERS, SEED), names=lambda u: f"u{u}")
    ps.obfuscate(made / "traces.parquet", scenario, made / "reports.parquet", seed=SEED)
    return made


@pytest.fixture(scope="module")
def found(folder):
    scenario = ps.load_scenario(folder / "small.toml")
    return ps.attack(folder / "reports.parquet", scenario, out=folder / "p.parquet", top=5, why=True, overwrite=True)


@pytest.fixture(scope="module")
def stories(folder):
    """The table of each user, report by report."""
    scenario = ps.load_scenario(folder / "small.toml")
    return {f"u{u}": attack_user(folder / "reports.parquet", scenario, f"u{u}").table for u in range(USERS)}


def last_rows(path):
    rows = pl.read_parquet(path)
    return rows.filter(pl.col("n") == pl.col("n").max().over("user", "adversary"))


def test_top_users_are_ordered_by_the_log_odds_of_their_posteriors(folder, found):
    rows = last_rows(folder / "p.parquet")
    for adversary in ("weak", "strong"):
        own = rows.filter(pl.col("adversary") == adversary)
        odds = {}
        for row in own.iter_rows(named=True):
            posterior = sorted(row[f"posterior.{pool}"] for pool in "abc")
            odds[row["user"]] = np.log(posterior[-1]) - np.log(posterior[0] + posterior[1])
        expected = sorted(odds, key=lambda user: -odds[user])[:5]
        top = [row for row in found.top if row["adversary"] == adversary]
        assert [row["user"] for row in top] == expected
        assert [row["log_odds"] for row in top] == pytest.approx([odds[user] for user in expected], rel=1e-12)


def test_saturated_confidences_are_ordered(tmp_path):
    """Without noise, who sent more of one pool's objects comes first, where both confidences print as 1.0."""
    scenario = scenario_of(tmp_path, mechanism="identity", attack="", adversaries=ADVERSARIES.split("[[adv")[0] or "")
    scenario = ps.load_scenario(_weak(tmp_path, scenario))
    lengths = {"b": 300, "a": 250, "c": 350}
    rows = [{"user": name, "value": z % 5} for name, count in lengths.items() for z in range(count)]
    pl.DataFrame(rows).write_parquet(tmp_path / "reports.parquet")
    top = ps.attack(tmp_path / "reports.parquet", scenario, top=3).top
    assert [row["user"] for row in top] == ["c", "b", "a"]
    assert {row["confidence"] for row in top} == {1.0}
    assert top[0]["log_odds"] > top[1]["log_odds"] > top[2]["log_odds"] > 36


def _weak(folder, scenario):
    path = folder / "weak.toml"
    path.write_text(f'{scenario.text}\n[[adversary]]\nname = "weak"\npopularity = "uniform"\n')
    return path


def test_explanations_are_those_of_the_user_report_by_report(stories, found):
    assert len(found.explanations.users) == len(found.top) == 10
    for one, row in zip(found.explanations.users, found.top, strict=True):
        assert (one.user, one.adversary, one.guess, one.n) == (row["user"], row["adversary"], row["guess"], row["n"])
        own = stories[one.user].filter((pl.col("adversary") == one.adversary) & (pl.col("n") <= one.n))
        confident = own.filter(pl.max_horizontal("^posterior\\..*$") >= 0.9)["n"]
        assert one.exposed_at == (confident[0] if len(confident) else None)
        factors = own[f"log_bayes_factor.{one.guess}"].to_numpy()
        assert [report.log_bayes_factor for report in one.reports] == pytest.approx(sorted(factors)[-1:-4:-1])
        for report in one.reports:
            assert factors[report.n - 1] == pytest.approx(report.log_bayes_factor)


def test_the_strongest_reports_are_those_of_all_users(stories, found):
    for adversary, reports in found.explanations.strongest.items():
        every = []
        for story in stories.values():
            own = story.filter((pl.col("adversary") == adversary) & (pl.col("n") <= 40))
            every += own.select(pl.max_horizontal("^log_bayes_factor\\..*$")).to_series().to_list()
        assert [one.log_bayes_factor for one in reports] == pytest.approx(sorted(every)[-1:-11:-1])
        for one in reports:
            row = stories[one.user].filter((pl.col("adversary") == adversary) & (pl.col("n") == one.n))
            assert row[f"log_bayes_factor.{one.pool}"][0] == pytest.approx(one.log_bayes_factor)


def test_gamma_delta_and_likely_objects_follow_bayes_rule(folder, found):
    scenario = ps.load_scenario(folder / "small.toml")
    one = next(one for one in found.explanations.users if one.adversary == "weak")
    universe, mechanism = scenario.universe(), scenario.game(SEED).mechanism
    users, reports = read_reports(folder / "reports.parquet", mechanism, universe)
    own = np.flatnonzero((users == one.user).to_numpy())[: one.n]
    reports = {name: column[own] for name, column in reports.items()}
    weak = ps.Adversary.weak(universe)
    mass = mechanism.mass(reports, stacked_pool_weights([weak])[0])
    offset, scale = mechanism.likelihood_offset, mechanism.likelihood_scale
    learned = ps.behavior_posterior(mass, likelihood_offset=offset, likelihood_scale=scale)
    assert one.gamma == (learned.gamma[0], learned.gamma_low[0], learned.gamma_high[0])
    assert one.delta == (learned.delta[0], learned.delta_low[0], learned.delta_high[0])
    assert report_likelihoods(mechanism, weak, mass)[1].shape == (one.n, 3)
    sizes = {"": 12, "a": 5, "b": 6, "c": 7}
    shares = dict.fromkeys("abc", one.gamma.value * (1 - one.delta.value) / 2)
    shares |= {"": 1 - one.gamma.value, one.guess: one.gamma.value * one.delta.value}
    names = ["", *universe.pool_names]
    pools = [names[index + 1] for index in universe.pool_of]
    for strong in one.reports:
        # of each object by itself, from the mechanism's own likelihoods
        likelihood = mechanism.likelihood({name: column[strong.n - 1 : strong.n] for name, column in reports.items()})[
            0
        ]
        joint = np.array([shares[pool] / sizes[pool] * likelihood[z] for z, pool in enumerate(pools)])
        order = np.argsort(-joint, kind="stable")[:3]
        assert [likely.probability for likely in strong.objects] == pytest.approx((joint / joint.sum())[order])


def test_the_expected_number_of_correct_guesses_is_the_sum_of_confidences(folder, found):
    rows = last_rows(folder / "p.parquet")
    for row in found.results:
        if row.n != 40:
            continue
        confidence = rows.filter(pl.col("adversary") == row.adversary)["confidence"]
        for one in row.expected:
            assert one.users == (confidence >= one.level).sum()
            assert one.correct == pytest.approx(confidence.filter(confidence >= one.level).sum(), abs=1e-9)
    strong = next(one for one in found.results[-1].expected if one.level == 0.99)
    assert strong.users
    assert strong.sentence == f"Of {strong.users} users at 99% or more, expect {strong.correct:.1f} correct"


def test_confidence_is_corrected_for_the_sets_of_pools_that_were_tried(folder, found):
    scenario, out = ps.load_scenario(folder / "small.toml"), folder / "corrected.parquet"
    again = ps.attack(folder / "reports.parquet", scenario, out=out, pool_sets=4, threshold=0.8, overwrite=True)
    plain, rows = pl.read_parquet(folder / "p.parquet"), pl.read_parquet(out)
    assert "confidence_corrected" not in plain.columns
    assert rows["confidence"].equals(plain["confidence"])
    # of the weak adversary after all reports, user by user
    universe, mechanism = scenario.universe(), scenario.game(SEED).mechanism
    users, reports = read_reports(folder / "reports.parquet", mechanism, universe)
    weak = ps.Adversary.weak(universe)
    mass = mechanism.mass(reports, stacked_pool_weights([weak])[0])
    for row in rows.filter((pl.col("adversary") == "weak") & (pl.col("n") == 40)).iter_rows(named=True):
        own = mass[np.flatnonzero((users == row["user"]).to_numpy())[:40]][None]
        factor = log_set_bayes_factor(mechanism, weak, own, np.array([40]))[:, -1]
        expected = row["confidence"] * np.exp(factor[0]) / (np.exp(factor[0]) + 3)
        assert row["confidence_corrected"] == pytest.approx(expected)
    assert rows["guess"].is_null().equals(rows["confidence_corrected"] < 0.8)
    assert "4 sets of pools" in again.cautions[0]
    assert again.results[-1].confidence < found.results[-1].confidence
    for bad in (0, -1):
        with pytest.raises(InputError, match="pool_sets: must be from 1 to 1,000,000"):
            ps.attack(folder / "reports.parquet", scenario, pool_sets=bad)


def test_posteriors_of_the_same_users_for_other_pools_are_a_caution(folder, tmp_path):
    scenario, reports = ps.load_scenario(folder / "small.toml"), folder / "reports.parquet"
    (tmp_path / "pools.csv").write_text("object,pool\n" + "".join(f"{z},{'xyz'[z % 3]}\n" for z in range(30)))
    first = ps.attack(reports, scenario, out=tmp_path / "one.csv")
    again = ps.attack(reports, scenario, out=tmp_path / "again.parquet")
    assert [*first.cautions, *again.cautions] == []
    other = ps.attack(reports, scenario, out=tmp_path / "two.parquet", pools=tmp_path / "pools.csv")
    (line,) = other.cautions
    assert line.startswith("again.parquet, one.csv beside the output: posteriors of the same users for other pools.")
    assert line.endswith("--pool-sets 3.")
    stated = ps.attack(
        reports, scenario, out=tmp_path / "two.parquet", pools=tmp_path / "pools.csv", overwrite=True, pool_sets=3
    )
    assert len(stated.cautions) == 1
    # other users are another question
    rows = pl.read_parquet(tmp_path / "again.parquet").with_columns(pl.col("user") + "x")
    for name in ("again.parquet", "one.csv"):
        (tmp_path / name).unlink()
    rows.write_parquet(tmp_path / "others.parquet")
    (tmp_path / "damaged.parquet").write_bytes(b"PAR1")
    third = ps.attack(reports, scenario, out=tmp_path / "three.parquet", pools=tmp_path / "pools.csv")
    assert third.cautions == []


def test_the_command_explains_in_tables_json_and_html(folder):
    arguments = ("attack", "reports.parquet", "--scenario", "small.toml", "--out", "c.parquet", "--overwrite")
    shown = poolscope(*arguments, "--top", 2, "--why", "--html", "c.html", cwd=folder)
    assert shown.returncode == 0, shown.stderr
    for text in ("Why these users", "Reports that revealed most, of all users", "log-odds", "or more, expect"):
        assert text in shown.stdout
    html = (folder / "c.html").read_text()
    for text in (
        "Why these users",
        "Reports that revealed most, of all users",
        "Checks of the reports",
        "or more, expect",
    ):
        assert text in html
    record = json.loads(poolscope(*arguments, "--top", 2, "--why", "--json", cwd=folder).stdout)
    schema = Draft202012Validator(schema_of("attack"))
    schema.validate(record)
    assert not schema.is_valid({name: value for name, value in record.items() if name != "inspection"})
    assert len(record["explanations"]) == len(record["top"]) == 4
    assert record["explanations"][0]["gamma_low"] <= record["explanations"][0]["gamma"]
    bad = poolscope(*arguments, "--why", cwd=folder)
    assert (bad.returncode, bad.stderr) == (2, "poolscope: --why: must have --top, the number of users to explain\n")
