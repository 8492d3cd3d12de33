"""The attack on tables of tuple reports, against the game on the same reports."""

import re
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import polars as pl
import pytest
from cases.tuples import DOMAIN, EMOJI, OPTIONS, scenario, written

import poolscope as ps
from poolscope.core.errors import InputError
from poolscope.core.executors import Local
from poolscope.devices.protocols import fresh_keys
from poolscope.game.collections import draw_persons
from poolscope.game.joint_block import play_joint_block
from poolscope.mechanisms import SMP
from poolscope.scenario.collections import game_of

USERS = 12
BOTH = [
    {"name": "strong", "popularity": "true"},
    {"name": "weak", "popularity": "uniform", "prior": {"pools": {"left": 2, "right": 1}}, "links": {"emoji": 0.9}},
]


def tuple_reports(game, persons):
    """The reports of the game's people, user after user, as one table of tuples."""
    mechanism = game.tuples
    if game.hidden:
        sent = persons.sent[0]
        values = np.stack([own.objects[own.mask] for own in persons.sent], axis=1)
        keys = fresh_keys(persons.keys[:, None], sent.event_index)[sent.mask]
        return mechanism.report(values, keys), np.repeat(np.arange(USERS), sent.lengths)
    rows = []
    for c, (own, one) in enumerate(zip(persons.sent, game.collections, strict=True)):
        (column,) = own.reports(one.game.device, persons.collection_keys[c]).values()
        who, event = np.repeat(np.arange(USERS), own.lengths), own.event_index[own.mask]
        rows.append((who, event, column))
    if not isinstance(mechanism, SMP):
        return {part.name: column for part, (_, _, column) in zip(mechanism.parts, rows, strict=True)}, rows[0][0]
    who = np.concatenate([row[0] for row in rows])
    order = np.lexsort([np.concatenate([row[1] for row in rows]), who])
    sampled = np.repeat(np.arange(len(rows)), [len(row[0]) for row in rows])
    reports = {"sampled": sampled[order]}
    for c, (part, (_, _, column)) in enumerate(zip(mechanism.parts, rows, strict=True)):
        whole = part.empty(len(who))
        whole[sampled == c] = column
        reports[part.name] = whole[order]
    return reports, who[order]


@pytest.mark.parametrize("kind", OPTIONS)
def test_posteriors_are_those_of_the_game(tmp_path, kind):
    found = scenario(kind, options=OPTIONS[kind], adversary=BOTH)
    game = game_of(found, 5)
    outcomes, persons = play_joint_block(game, range(USERS), 5), draw_persons(game, range(USERS), 5, Local(threads=1))
    reports, who = tuple_reports(game, persons)
    path = written(tmp_path / "reports.parquet", reports)
    # users are interleaved, each in order of time
    frame = pl.read_parquet(path).with_columns(pl.Series("user", [f"u{u}" for u in who]))
    number = frame.with_columns(number=pl.int_range(pl.len()).over("user"))
    number.sort("number", "user").drop("number").write_parquet(path)
    made = ps.attack_collections(path, found, out=tmp_path / "posteriors.csv", top=2)
    table = pl.read_csv(tmp_path / "posteriors.csv")
    assert table.columns == ["user", "adversary", "n", "guess", "confidence", "posterior.left", "posterior.right"]
    assert (made.users, made.reports) == (USERS, len(who))
    assert len(made.top) == 4
    for adversary in ("strong", "weak"):
        for n in (3, 8):
            joint = outcomes.filter(
                (pl.col("collection") == "joint") & (pl.col("adversary") == adversary) & (pl.col("n") == n)
            ).sort("user")
            rows = table.filter((pl.col("adversary") == adversary) & (pl.col("n") == n))
            rows = rows.with_columns(pl.col("user").str.slice(1).cast(int)).sort("user")
            np.testing.assert_allclose(rows["confidence"], joint["confidence"], rtol=1e-9)
            certain = joint["confidence"] > 0.5 + 1e-9
            assert rows["guess"].filter(certain).to_list() == joint["guess"].cast(str).filter(certain).to_list()
            summary = next(one for one in made.results if (one.adversary, one.n) == (adversary, n))
            assert summary.confidence == pytest.approx(joint["confidence"].mean())


def test_all_reports_count_without_observations(tmp_path):
    tables = scenario("rs+fd").to_dict()
    del tables["attack"]
    path = tmp_path / "reports.csv"
    path.write_text("user,emoji,domain\n" + "ann,0,1\nann,1,2\nbob,3,0\n" + "ann,0,0\n" * 4)
    made = ps.attack_collections(path, ps.Scenario.from_dict(tables))
    assert sorted((row["user"], row["n"]) for row in made.preview) == [("ann", 6), ("bob", 1)]


def test_the_popularity_is_estimated_from_the_reports(tmp_path):
    learning = [{"name": "learner", "popularity": "estimated"}]
    found = scenario("rs+fd", options={"epsilon": 6.0}, adversary=learning)
    rng = np.random.default_rng(1)
    mechanism = game_of(scenario("rs+fd", options={"epsilon": 6.0}), 1).tuples
    people = np.stack([rng.choice(8, 4000), rng.choice(5, 4000)], axis=1)
    path = written(tmp_path / "reports.parquet", mechanism.obfuscate(people, rng))
    learned = ps.attack_collections(path, found, out=tmp_path / "one.csv", engine=Local(threads=1))
    ps.attack_collections(path, found, out=tmp_path / "four.csv", engine=Local(threads=4))
    assert (tmp_path / "one.csv").read_bytes() == (tmp_path / "four.csv").read_bytes()
    uniform = ps.attack_collections(path, found.replace({"adversary": [{"name": "learner", "popularity": "uniform"}]}))
    assert learned.estimated == ["learner"]
    one, other = (np.array([row["posterior.left"] for row in made.preview]) for made in (learned, uniform))
    np.testing.assert_allclose(one, other, atol=0.1)
    assert np.abs(one - other).max() > 1e-6


def test_guesses_are_evaluated_and_refused(tmp_path):
    path, truth = tmp_path / "reports.csv", tmp_path / "truth.csv"
    path.write_text("user,emoji,domain\n" + "ann,0,2\n" * 5 + "bob,3,0\n" * 5)
    truth.write_text("user,pool\nann,left\nbob,right\n")
    made = ps.attack_collections(path, scenario("rs+fd"), out=tmp_path / "out.csv", ground_truth=truth, threshold=0.99)
    assert made.evaluation[0].users == 2
    assert {row["guess"] for row in made.preview} == {None}
    with pytest.raises(InputError, match="must have `out`"):
        ps.attack_collections(path, scenario("rs+fd"), ground_truth=truth)
    with pytest.raises(InputError, match=re.escape("must have [[collection]]")):
        ps.attack_collections(path, ps.load_scenario("apple-emojis"))
    with pytest.raises(InputError, match="has one report for all collections; give one table of tuple reports"):
        ps.attack_collections({"emoji": path}, scenario("rs+fd"))
    with pytest.raises(InputError, match="why: cannot be combined"):
        ps.attack_collections(path, scenario("rs+fd"), why=True, top=1)
    with ThreadPoolExecutor(1) as pool, pytest.raises(InputError, match="tuple reports need the engine Local"):
        ps.attack_collections(path, scenario("rs+fd"), engine=pool)
    path.write_text("user,emoji,domain\nann,0,5\n")
    with pytest.raises(InputError, match="must be an integer from 0 to 4"):
        ps.attack_collections(path, scenario("rs+fd"), out=tmp_path / "other.csv")
    assert not (tmp_path / "other.csv").exists()


@pytest.mark.parametrize("other", [EMOJI, DOMAIN])
def test_impossible_reports_leave_the_prior(tmp_path, other):
    """A fake value without a prior, and a value of another attribute that is never drawn otherwise."""
    # one value of each pool, and a neutral one
    sizes = {"emoji": (8, (0, 2, 5)), "domain": (5, (0, 2, 4))}
    for name, (size, drawn) in sizes.items():
        rows = "".join(f"{z},{int(z in drawn)}\n" for z in range(size))
        (tmp_path / f"{name}.csv").write_text("object,popularity\n" + rows)
    options = {"priors": {name: f"{name}.csv" for name in sizes}}
    found = ps.Scenario.from_dict(scenario("rs+rfd", options=options).to_dict(), folder=tmp_path)
    path = tmp_path / "reports.csv"
    path.write_text("user,emoji,domain\nann,1,1\n")
    made = ps.attack_collections(path, found)
    assert made.preview[0]["confidence"] == pytest.approx(0.5)
    path.write_text(f"user,emoji,domain\nann,{int(other is EMOJI)},{int(other is DOMAIN)}\n")
    assert ps.attack_collections(path, found).preview[0]["confidence"] > 0.5
