"""The attack on tables of tuple reports, against the game on the same reports."""

import re
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction
from itertools import product

import numpy as np
import polars as pl
import pytest
from cases.tuples import DOMAIN, EMOJI, OPTIONS, scenario, written
from oracle import tuple_posterior as oracle

import poolscope as ps
from poolscope.core.errors import InputError
from poolscope.core.executors import Local
from poolscope.devices.protocols import fresh_keys
from poolscope.game.collections import draw_persons
from poolscope.game.joint_block import play_joint_block
from poolscope.mechanisms import SMP
from poolscope.scenario.collections import assumed_link, game_of
from poolscope.workflows.attack.tuple_user import attack_user_tuples

USERS = 12
LINK = [[0.7, 0.2, 0.1], [0.25, 0.25, 0.5]]
BOTH = [
    {"name": "strong", "popularity": "true"},
    {"name": "weak", "popularity": "uniform", "prior": {"pools": {"left": 2, "right": 1}}, "links": {"emoji": 0.9}},
]
COLUMNS = ["user", "adversary", "n", "guess", "confidence", "posterior.left", "posterior.right"]
POOLS = [
    *("posterior.emoji.left", "posterior.emoji.right"),
    *("posterior.domain.right", "posterior.domain.left"),
]
SHARES = ["sampled.emoji", "sampled.domain"]
MORE = {"spl": [], "smp": ["n.emoji", "n.domain"], "rs+fd": SHARES, "rs+rfd": SHARES}


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
    assert table.columns == [*COLUMNS, *POOLS, *MORE[kind]]
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
            # the pool of domain is that of the attribute, by name
            np.testing.assert_allclose(rows["posterior.domain.left"], rows["posterior.left"], rtol=1e-6)
            # that of emoji is another one, and links bring it closer to the prior
            assert np.abs(rows["posterior.emoji.left"] - rows["posterior.left"]).max() > 0.01
            if kind == "smp":
                assert (rows["n.emoji"] + rows["n.domain"]).to_list() == rows["n"].to_list()


def exact_pools(mechanism, scenario, reports):
    """The posteriors of value and pools by enumeration; the adversary is the one of the true popularity."""
    universes = [part.universe() for part in scenario.parts]
    weights = []
    for part, universe in zip(scenario.parts, universes, strict=True):
        given = [Fraction(p) for p in part.true_popularity(universe)]
        own = universe.pool_of.tolist()
        sums = {pool: sum(p for p, other in zip(given, own, strict=True) if other == pool) for pool in set(own)}
        weights.append([p / sums[pool] for p, pool in zip(given, own, strict=True)])
    likelihood = np.exp(mechanism.log_likelihood(reports)).reshape(-1, *mechanism.sizes)
    evidence = {
        pools: oracle.likelihood(
            range(len(likelihood)),
            lambda t, x: Fraction(likelihood[t][x]),
            pools,
            [universe.pool_of.tolist() for universe in universes],
            weights,
        )
        for pools in product(*(range(universe.k) for universe in universes))
    }
    links = [[[Fraction(p) for p in row] for row in assumed_link(scenario, c, 0).tolist()] for c in range(2)]
    prior = [Fraction(1, 2)] * 2
    return [oracle.posterior(evidence, prior, links, (True, True))] + [
        oracle.pool_posterior(evidence, prior, links, c) for c in range(2)
    ]


@pytest.mark.parametrize("kind", OPTIONS)
def test_posteriors_of_pools_are_those_of_the_enumeration(tmp_path, kind):
    # a link that couples the pools of both, and one pool that the attribute does not have
    domain = {**DOMAIN, "universe": {"size": 5, "pools": {"x": 1, "y": 1, "z": 2}}, "link": LINK}
    found = scenario(
        kind, {**EMOJI, "universe": {"size": 4, "pools": {"left": 1, "right": 2}}}, domain, options=OPTIONS[kind]
    )
    mechanism = game_of(found, 5).tuples
    reports = mechanism.obfuscate([[0, 4], [1, 3]], np.random.default_rng(7))
    frame = pl.read_parquet(written(tmp_path / "reports.parquet", reports)).with_columns(user=pl.lit("ann"))
    frame.write_parquet(tmp_path / "reports.parquet")
    (row,) = ps.attack_collections(tmp_path / "reports.parquet", found, observations=[2]).preview
    names = [
        ["posterior.left", "posterior.right"],
        ["posterior.emoji.left", "posterior.emoji.right"],
        [f"posterior.domain.{pool}" for pool in "xyz"],
    ]
    for columns, expected in zip(names, exact_pools(mechanism, found, reports), strict=True):
        np.testing.assert_allclose([row[name] for name in columns], np.array(expected, dtype=float), rtol=1e-9)


@pytest.mark.parametrize("kind", ["rs+fd", "rs+rfd"])
def test_the_sampled_collection_is_guessed_as_in_the_game(tmp_path, kind):
    found = scenario(kind, options=OPTIONS[kind])
    game = game_of(found, 5)
    outcomes, persons = play_joint_block(game, range(USERS), 5), draw_persons(game, range(USERS), 5, Local(threads=1))
    reports, who = tuple_reports(game, persons)
    path, sent = written(tmp_path / "reports.parquet", reports), persons.sent[0]
    frame = pl.read_parquet(path).with_columns(pl.Series("user", [f"u{u}" for u in who]))
    frame.write_parquet(path)
    sampled = game.tuples.sampled(fresh_keys(persons.keys[:, None], sent.event_index)[sent.mask])
    made = ps.attack_collections(path, found, out=tmp_path / "out.csv")
    assert made.attribute == "leaning"
    table = pl.read_csv(tmp_path / "out.csv").filter(pl.col("n") == 8)
    correct = []
    for user in range(USERS):
        story = attack_user_tuples(path, found, f"u{user}")
        own = story.table.select(SHARES).to_numpy()
        np.testing.assert_allclose(own.sum(axis=1), 1.0)
        correct.append((own.argmax(axis=1) == sampled[who == user]).mean())
        # the share in the table is the mean over reports, and the last row has the table's posteriors
        row = table.filter(pl.col("user") == f"u{user}")
        np.testing.assert_allclose(row.select(SHARES).to_numpy()[0], own.mean(axis=0), rtol=1e-9)
        every = ["posterior.left", "posterior.right", *POOLS]
        np.testing.assert_allclose(story.table.select(every).to_numpy()[-1], row.select(every).to_numpy()[0], rtol=1e-6)
    joint = outcomes.filter(
        (pl.col("collection") == "joint") & (pl.col("adversary") == "strong") & (pl.col("n") == 8)
    ).sort("user")
    np.testing.assert_allclose(joint["sampled_correct"], correct, rtol=1e-6)


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


def test_one_user_is_attacked_report_by_report(tmp_path):
    path = tmp_path / "reports.csv"
    path.write_text("user,sampled,emoji,domain\nann,0,1,0\nbob,1,0,3\nann,1,0,2\n")
    found = scenario("smp", adversary=BOTH)
    story = attack_user_tuples(path, found, "ann", out=tmp_path / "ann.csv")
    assert (story.user, story.reports, story.values) == ("ann", 2, ("left", "right"))
    table = pl.read_csv(tmp_path / "ann.csv")
    assert table.columns == ["adversary", "n", "collection", "posterior.left", "posterior.right", *POOLS]
    assert table["collection"].to_list() == ["emoji", "domain"] * 2
    assert table["n"].to_list() == [1, 2] * 2
    np.testing.assert_allclose(table["posterior.left"] + table["posterior.right"], 1.0)
    with pytest.raises(InputError, match=r"reports\.csv: user: must be a user of the file, got 'eve'"):
        attack_user_tuples(path, found, "eve")


def test_columns_must_have_different_names(tmp_path):
    path = tmp_path / "reports.csv"
    path.write_text("user,emoji,domain\nann,0,2\n")
    values = ["emoji.left", "right"]
    link = [[0.5, 0.5], [0.5, 0.5]]
    found = scenario("rs+fd", {**EMOJI, "link": link}, {**DOMAIN, "link": link})
    found = found.replace({"attribute.values": values})
    with pytest.raises(InputError, match=r"must have different names, got 'posterior\.emoji\.left'; rename"):
        ps.attack_collections(path, found)


def test_a_day_without_reports_has_no_sampled_share(tmp_path):
    path = tmp_path / "reports.csv"
    path.write_text("user,emoji,domain\nann,0,2\n")
    found = scenario("rs+fd", devices={"reports_per_day": 0.5})
    first, second = ps.attack_collections(path, found, observations=[1, 2]).preview
    assert (first["n"], first["sampled.emoji"], first["posterior.left"]) == (0, None, pytest.approx(0.5))
    assert second["sampled.emoji"] + second["sampled.domain"] == pytest.approx(1.0)
