"""The attack on the reports of several collections: users matched by name, days, the truth, and one user's story."""

import numpy as np
import polars as pl
import pytest
from cases.collections import DOMAINS, EMOJIS, WORDS, scenario
from typer.testing import CliRunner

import poolscope as ps
from poolscope.cli.commands import app
from poolscope.core.errors import InputError
from poolscope.core.executors import Local
from poolscope.game.collections import draw_persons
from poolscope.inference.joint import joint_posterior
from poolscope.scenario.collections import build_joint_game
from poolscope.workflows.attack.collections import attack_user_collections

USERS = 30
PRIOR = {"left": 2.0, "right": 1.0}
ADVERSARY = [{"name": "strong", "popularity": "true", "prior": {"pools": PRIOR}}]


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """Reports of both collections: u3 has no domains, u4 no emojis, u5 few emojis."""
    folder = tmp_path_factory.mktemp("reports")
    found = scenario(adversary=ADVERSARY)
    (folder / "two.toml").write_text(found.text)
    game = build_joint_game(found, 1)
    persons = draw_persons(game, range(USERS), 1, Local(threads=1))
    made = {}
    for c, name in enumerate(("emojis", "domains")):
        objects = persons.sent[c].objects
        length = objects.shape[1]
        traces = pl.DataFrame({"user": np.repeat([f"u{u}" for u in range(USERS)], length), "object": objects.ravel()})
        traces = traces.filter(pl.col("user") != ("u4" if c == 0 else "u3"))
        if c == 0:
            place = pl.int_range(pl.len()).over("user")
            traces = traces.filter((pl.col("user") != "u5") | (place < 3))
        traces.write_csv(folder / f"{name}-traces.csv")
        made[name] = folder / f"{name}.parquet"
        ps.obfuscate(folder / f"{name}-traces.csv", found.parts[c], made[name], seed=1)
    truth = [found.attribute.values[a] for a in persons.attribute]
    pl.DataFrame({"user": [f"u{u}" for u in range(USERS)], "pool": truth}).write_csv(folder / "truth.csv")
    return found, made, folder


def test_posteriors_are_products_of_single_attacks(files, tmp_path):
    found, made, _ = files
    result = ps.attack_collections(made, found, out=tmp_path / "joint.parquet")
    table = pl.read_parquet(tmp_path / "joint.parquet")
    assert table.columns == [
        *("user", "adversary", "n", "guess", "confidence", "posterior.left", "posterior.right", "n.emojis", "n.domains")
    ]
    assert (result.users, result.pools) == (USERS, ["left", "right"])
    days, game = [3, 10, 20], build_joint_game(found, 1)
    singles = []
    for c, name in enumerate(made):
        counts = [2 * day if c == 0 else day for day in days]
        ps.attack(made[name], found.parts[c], observations=counts, out=tmp_path / f"{name}.parquet")
        singles.append(pl.read_parquet(tmp_path / f"{name}.parquet"))
    for row in table.iter_rows(named=True):
        parts = []
        for c, (name, single) in enumerate(zip(made, singles, strict=True)):
            own = single.filter((pl.col("user") == row["user"]) & (pl.col("n") == row[f"n.{name}"]))
            pools = game.collections[c].game.universe.pool_names
            values = [own[f"posterior.{pool}"][0] for pool in pools] if own.height else [np.nan] * 2
            parts.append(values)
        expected = joint_posterior(parts, [one.link for one in game.collections], list(PRIOR.values()))
        assert [row["posterior.left"], row["posterior.right"]] == pytest.approx(expected.tolist(), abs=1e-12)
        assert row["confidence"] == pytest.approx(expected.max())
        assert row["guess"] == found.attribute.values[int(expected.argmax())]
        assert row["n"] == row["n.emojis"] + row["n.domains"]
    assert table.filter(pl.col("user") == "u3")["n.domains"].to_list() == [0, 0, 0]
    assert table.filter(pl.col("user") == "u4")["n.emojis"].to_list() == [0, 0, 0]
    assert table.filter(pl.col("user") == "u5")["n.emojis"].to_list() == [3, 3, 3]


def test_other_days_a_threshold_and_the_truth(files, tmp_path):
    found, made, folder = files
    result = ps.attack_collections(
        made,
        found,
        observations=[5],
        threshold=0.8,
        out=tmp_path / "joint.csv",
        ground_truth=folder / "truth.csv",
        top=2,
    )
    table = pl.read_csv(tmp_path / "joint.csv")
    assert table["n"].max() == 15
    assert table.filter(pl.col("confidence") < 0.8)["guess"].null_count() == (table["confidence"] < 0.8).sum()
    assert result.results[0].no_guess == (table["confidence"] < 0.8).sum()
    assert result.evaluation[0].users == USERS
    assert len(result.top) == 2


def test_one_file_is_enough_and_one_collection_alone(files, tmp_path):
    found, made, _ = files
    ps.attack_collections({"domains": made["domains"]}, found, out=tmp_path / "one.parquet")
    table = pl.read_parquet(tmp_path / "one.parquet")
    assert "n.emojis" not in table.columns
    assert "u3" not in table["user"]


def test_a_user_is_shown_in_order_of_time(files, tmp_path):
    found, made, _ = files
    ps.attack_collections(made, found, out=tmp_path / "joint.parquet")
    last = pl.read_parquet(tmp_path / "joint.parquet").filter(pl.col("user") == "u7").sort("n").row(-1, named=True)
    story = attack_user_collections(made, found, "u7")
    assert story.reports == story.table.height == 60
    # two emojis and one domain a day: the days decide the order
    assert story.table["collection"][:4].to_list() == ["emojis", "emojis", "domains", "emojis"]
    assert story.table["posterior.left"][-1] == pytest.approx(last["posterior.left"], abs=1e-9)
    timed = {}
    for name, path in made.items():
        rows = pl.read_parquet(path)
        hour = 10 if name == "emojis" else 0
        place = pl.int_range(pl.len()).over("user") + hour
        timed[name] = tmp_path / f"timed-{name}.parquet"
        rows.with_columns(time=place).write_parquet(timed[name])
    other = attack_user_collections(timed, found, "u7")
    assert other.table["collection"][:11].to_list() == ["domains"] * 10 + ["emojis"]
    assert other.table["posterior.left"][-1] == pytest.approx(story.table["posterior.left"][-1], abs=1e-9)
    backwards = tmp_path / "backwards.parquet"
    pl.read_parquet(timed["emojis"]).with_columns(time=-pl.col("time")).write_parquet(backwards)
    with pytest.raises(InputError, match="in order of time"):
        attack_user_collections({**timed, "emojis": backwards}, found, "u7")


def run(*words):
    return CliRunner().invoke(app, ["attack", *map(str, words)])


def test_the_command_takes_a_file_for_each_collection(files, tmp_path):
    _, made, folder = files
    named = [word for name, path in made.items() for word in ("--reports", f"{name}={path}")]
    done = run(*named, "--scenario", folder / "two.toml", "--out", tmp_path / "p.parquet")
    assert done.exit_code == 0, done.output
    assert "30 users" in done.output
    assert (tmp_path / "p.parquet").exists()
    one = run(*named, "--scenario", folder / "two.toml", "--user", "u7")
    assert one.exit_code == 0, one.output
    assert "After all reports, the strong adversary assigns" in one.output


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--reports", "emojis"], "must be NAME=FILE"),
        (["--reports", "emoji=x.parquet"], "unknown collection, got 'emoji'; did you mean 'emojis'?"),
        (["--reports", "emojis=x.parquet"], "there is no such file"),
        (["--reports", "emojis=x.parquet", "--reports", "emojis=y.parquet"], "a collection must have one file"),
        (["--reports", "emojis=x.parquet", "--link-fdr", "0.1"], "goes not with `reports`"),
        (["x.parquet", "--reports", "emojis=x.parquet"], "must have a file of reports, or"),
        ([], "must have a file of reports, or"),
    ],
)
def test_what_is_wrong_is_one_line_and_nothing_is_written(files, tmp_path, words, message):
    _, _, folder = files
    out = tmp_path / "p.parquet"
    done = run(*words, "--scenario", folder / "two.toml", "--out", out)
    assert done.exit_code != 0
    assert message in str(done.exception or done.output)
    assert list(tmp_path.iterdir()) == []


def test_a_scenario_of_one_collection_is_refused(files):
    _, made, _ = files
    with pytest.raises(InputError, match=r"must have \[\[collection\]\]"):
        ps.attack_collections(made, ps.load_scenario("apple-emojis"))


def test_a_link_assumed_by_an_adversary_is_used(files, tmp_path):
    found, made, _ = files
    other = scenario(EMOJIS, DOMAINS, WORDS, adversary=[{**ADVERSARY[0], "links": {"emojis": 0.5}}])
    ps.attack_collections({"emojis": made["emojis"]}, other, out=tmp_path / "none.parquet")
    assert pl.read_parquet(tmp_path / "none.parquet")["confidence"].to_numpy() == pytest.approx(2 / 3)
    ps.attack_collections({"emojis": made["emojis"]}, found, out=tmp_path / "some.parquet")
    assert pl.read_parquet(tmp_path / "some.parquet")["confidence"].max() > 0.7
