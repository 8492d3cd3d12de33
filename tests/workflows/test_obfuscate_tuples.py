"""The client of tuples: traces with an object of each collection become reports that estimate and attack read."""

import numpy as np
import polars as pl
import pytest
from cases.tuples import DOMAIN, EMOJI, OPTIONS, scenario

import poolscope as ps
from poolscope.core.errors import InputError
from poolscope.core.executors import Local
from poolscope.devices.protocols import fresh_keys
from poolscope.game.collections import draw_persons
from poolscope.reports.files import blocks, report_names
from poolscope.scenario.collections import game_of
from poolscope.scenario.multidimensional import build_multidimensional, column_universes, tuple_columns

SHARES = {"emoji": np.array([8, 1, 1, 4, 1, 1, 2, 2]) / 20, "domain": np.array([10, 1, 4, 2, 3]) / 20}
ROWS = 4000


def traces(path, rows=ROWS, users=50, seed=1, **named):
    """Write events of users whose objects have the shares above, and return the path."""
    rng = np.random.default_rng(seed)
    columns = {name: rng.choice(len(p), rows, p=p) for name, p in SHARES.items()}
    columns = {name: own if name not in named else [named[name][z] for z in own] for name, own in columns.items()}
    frame = pl.DataFrame({"user": [f"u{i % users}" for i in range(rows)], **columns})
    frame.write_csv(path) if path.suffix == ".csv" else frame.write_parquet(path)
    return path


def read(path, found):
    """The reports of a file as the mechanism's columns."""
    from poolscope.core.tables import opened
    from poolscope.core.tables.sources import DEFAULT

    mechanism, universes = build_multidimensional(found), {part.name: part.universe() for part in found.parts}
    own = tuple_columns(mechanism, universes)
    with opened(path, report_names(own), DEFAULT) as source:
        ((users, block),) = blocks(source, own, column_universes(own, universes), rows=1 << 16)
    return users.to_list(), block


@pytest.mark.parametrize("kind", ["rs+fd", "rs+rfd", "smp"])
def test_reports_are_those_of_the_game(tmp_path, kind):
    found = scenario(kind, options=OPTIONS[kind])
    game = game_of(found, 3)
    persons = draw_persons(game_of(scenario("spl"), 3), range(9), 3, Local(threads=1))
    sent = persons.sent[0]
    values = np.stack([own.objects[own.mask] for own in persons.sent], axis=1)
    who = np.repeat(np.arange(9), sent.lengths)
    # rows of users are interleaved; a user's events are in order
    order = np.argsort(np.concatenate([np.arange(n) for n in sent.lengths]), kind="stable")
    frame = pl.DataFrame({"user": who[order], "emoji": values[order, 0], "domain": values[order, 1]})
    frame.write_parquet(tmp_path / "traces.parquet")
    made = ps.obfuscate(tmp_path / "traces.parquet", found, tmp_path / "reports.parquet", seed=3)
    assert (made.users, made.reports) == (9, len(who))
    users, reports = read(tmp_path / "reports.parquet", found)
    assert users == who[order].tolist()
    keys = fresh_keys(persons.keys[:, None], sent.event_index)[sent.mask]
    expected = game.tuples.report(values, keys)
    for name, column in expected.items():
        np.testing.assert_array_equal(reports[name], column[order])


@pytest.mark.parametrize("suffix", [".parquet", ".csv"])
@pytest.mark.parametrize("kind", OPTIONS)
def test_estimates_are_within_their_errors(tmp_path, kind, suffix):
    """All 13 frequencies within 4 standard errors, which a correct client exceeds in 1 of 1,200 runs."""
    (tmp_path / "objects.csv").write_text(
        "object,pool\n" + "".join(f"d{z},{['right', 'left'][z < 2]}\n" for z in range(5))
    )
    named = {**DOMAIN, "universe": {"objects": "objects.csv"}, "popularity": {"kind": "uniform"}}
    found = ps.Scenario.from_dict(
        scenario(kind, {**EMOJI, "mechanism": {"kind": "oue"}}, named, options=OPTIONS[kind]).to_dict(), folder=tmp_path
    )
    path = traces(tmp_path / f"traces{suffix}", domain=[f"d{z}" for z in range(5)])
    truth = pl.read_csv(path) if suffix == ".csv" else pl.read_parquet(path)
    ps.obfuscate(path, found, tmp_path / f"reports{suffix}", seed=1)
    table = ps.estimate(tmp_path / f"reports{suffix}", found).table
    off = []
    for name, shares in SHARES.items():
        rows = table.filter(pl.col("collection") == name)
        counts = truth[name].cast(pl.String).value_counts()
        known = dict(zip(counts[name].to_list(), (counts["count"] / ROWS).to_list(), strict=True))
        error = rows["frequency"] / rows["count"] * rows["standard_error"]
        off.append((rows["frequency"] - pl.Series([known[z] for z in rows["object"]])) / error)
        # the control: frequencies of other objects are not within them
        other = (rows["frequency"] - pl.Series(np.roll(shares, 1))) / error
        assert other.abs().max() > 4
    assert pl.concat(off).abs().max() < 4


def test_users_are_guessed_from_their_reports(tmp_path):
    """Each user picks objects of one pool, at an epsilon that reveals most of them."""
    left, right = "ann,0,2\nann,1,3\n", "bob,2,0\nbob,4,1\n"
    (tmp_path / "traces.csv").write_text("user,emoji,domain\n" + (left + right) * 15)
    found = scenario("rs+fd", options={"epsilon": 6.0}, attack={"observations": [30]})
    ps.obfuscate(tmp_path / "traces.csv", found, tmp_path / "reports.csv", seed=2)
    made = ps.attack_collections(tmp_path / "reports.csv", found)
    rows = {row["user"]: row for row in made.preview}
    assert {user: row["guess"] for user, row in rows.items()} == {"ann": "left", "bob": "right"}
    assert min(row["confidence"] for row in rows.values()) > 0.9
    assert rows["ann"]["posterior.emoji.left"] > 0.9 > 0.1 > rows["bob"]["posterior.emoji.left"]


def test_reports_depend_on_seed_and_user_alone(tmp_path, monkeypatch):
    found, path = scenario("rs+rfd", options=OPTIONS["rs+rfd"]), traces(tmp_path / "traces.parquet", 300)
    for name, seed, engine in (("one", 1, Local(threads=1)), ("two", 1, Local(threads=2)), ("other", 2, Local())):
        ps.obfuscate(path, found, tmp_path / f"{name}.csv", seed=seed, engine=engine)
    one, two, other = ((tmp_path / f"{name}.csv").read_bytes() for name in ("one", "two", "other"))
    assert one == two != other
    monkeypatch.setattr("poolscope.workflows.obfuscate.BLOCK_ROWS", 7)
    monkeypatch.setattr("poolscope.workflows.obfuscate.PIECE_ROWS", 3)
    ps.obfuscate(path, found, tmp_path / "blocks.csv", seed=1)
    assert (tmp_path / "blocks.csv").read_bytes() == one
    # without the last user, who came last, the others' reports are the same
    frame = pl.read_parquet(path).filter(pl.col("user") != "u49")
    frame.write_parquet(path)
    ps.obfuscate(path, found, tmp_path / "fewer.csv", seed=1)
    kept = pl.read_csv(tmp_path / "one.csv").filter(pl.col("user") != "u49")
    assert pl.read_csv(tmp_path / "fewer.csv").equals(kept)


def test_devices_limit_the_reports(tmp_path):
    limited = scenario("smp", devices={"sampling_rate": 0.5, "cap": 3})
    path = traces(tmp_path / "traces.csv", 400, users=40)
    made = ps.obfuscate(path, limited, tmp_path / "reports.csv", seed=1)
    counts = pl.read_csv(tmp_path / "reports.csv")["user"].value_counts()["count"]
    assert made.users == 40
    assert (counts.max(), made.reports) == (3, counts.sum())
    # of ten events each, three or more are reported by 95% of the users
    assert made.reports > 100


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("user,object\nu,1\n", "must have a column 'emoji'"),
        ("user,emoji,domain\nu,8,0\n", "row 1: emoji must be an object of the universe, a number from 0 to 7, got '8'"),
        ("user,emoji,domain\nu,1,\n", "domain"),
    ],
)
def test_wrong_traces_are_one_line(tmp_path, text, message):
    path = tmp_path / "traces.csv"
    path.write_text(text)
    with pytest.raises(InputError, match=r"traces\.csv") as caught:
        ps.obfuscate(path, scenario("rs+fd"), tmp_path / "out.csv")
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "out.csv").exists()
