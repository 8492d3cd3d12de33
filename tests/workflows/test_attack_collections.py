"""The attack on the reports of several collections: users matched by name, days, the truth, and one user's story."""

import json

import numpy as np
import polars as pl
import pytest
from cases.collections import DOMAINS, EMOJIS, WORDS, scenario
from cases.selection import mostly, slow
from jsonschema import Draft202012Validator
from polars.testing import assert_frame_equal
from typer.testing import CliRunner

import poolscope as ps
from poolscope.cli.commands import app
from poolscope.cli.schemas import schema_of
from poolscope.core.errors import InputError
from poolscope.core.executors import Local
from poolscope.game.collections import draw_persons
from poolscope.inference.joint import joint_posterior
from poolscope.scenario.collections import build_joint_game
from poolscope.workflows.attack import collections as joint
from poolscope.workflows.attack.collection_user import attack_user_collections

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


@pytest.fixture(scope="module")
def attacked(files):
    """The attack on both collections, and its table."""
    found, made, folder = files
    result = ps.attack_collections(made, found, out=folder / "joint.parquet")
    return result, pl.read_parquet(folder / "joint.parquet")


def test_posteriors_are_products_of_single_attacks(files, attacked, tmp_path):
    found, made, _ = files
    result, table = attacked
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
    assert table.filter(pl.col("user") == "u0")["n.emojis"].to_list() == [6, 20, 40]
    assert table.filter(pl.col("user") == "u0")["n.domains"].to_list() == days
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


def test_a_user_is_shown_in_order_of_time(files, attacked, tmp_path):
    found, made, _ = files
    last = attacked[1].filter(pl.col("user") == "u7").sort("n").row(-1, named=True)
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
    with pytest.raises(
        InputError, match=r"backwards.parquet: .* in order of time, got '-11 after -10'; sort it by time"
    ):
        attack_user_collections({**timed, "emojis": backwards}, found, "u7")


EPOCH = 1704067200  # 2024-01-01


def timed_files(made, folder, forms):
    """Write the reports with one every six hours, emojis at full hours and domains an hour later, in these forms."""
    found = {}
    for c, (name, form) in enumerate(forms.items()):
        rows = pl.read_parquet(made[name])
        second = EPOCH + 6 * 3600 * pl.int_range(pl.len()).over("user") + 3600 * c
        found[name] = folder / f"{name}-{len(list(folder.iterdir()))}.parquet"
        rows.with_columns(time=form(second)).write_parquet(found[name])
    return found


def iso(form, hours=0):
    return lambda second: pl.from_epoch(second + 3600 * hours).dt.strftime(form)


FORMS = {
    "milliseconds": lambda second: pl.from_epoch(second).cast(pl.Datetime("ms")),
    "zone": lambda second: pl.from_epoch(second).dt.replace_time_zone("UTC").dt.convert_time_zone("Asia/Tokyo"),
    "T": iso("%Y-%m-%dT%H:%M:%S"),
    "blank": iso("%Y-%m-%d %H:%M"),
    "offset": iso("%Y-%m-%dT%H:%M:%S+02:00", hours=2),
}


@pytest.mark.default_cases("milliseconds", "zone", "offset")
@pytest.mark.parametrize("form", FORMS)
def test_dates_of_any_form_are_one_order(files, tmp_path, form):
    found, made, _ = files
    timed = timed_files(made, tmp_path, {"emojis": FORMS[form], "domains": iso("%Y-%m-%dT%H:%M:%SZ")})
    story = attack_user_collections(timed, found, "u7")
    assert story.table["collection"][:6].to_list() == ["emojis", "domains"] * 3


def test_numbers_and_dates_have_no_common_order(files, tmp_path):
    found, made, _ = files
    timed = timed_files(made, tmp_path, {"emojis": FORMS["T"], "domains": lambda second: second})
    with pytest.raises(
        InputError, match=r"domains-1.parquet: times must be dates as in .*emojis-0.parquet, got '17040"
    ):
        attack_user_collections(timed, found, "u7")


def test_days_without_times_count_sampled_reports(files):
    """Of two events a day one in four is reported: a domain each day comes before every other emoji."""
    found, made, _ = files
    tables = found.to_dict()
    tables["collection"][0]["devices"] = {"reports_per_day": 2, "sampling_rate": 0.25}
    story = attack_user_collections(made, ps.Scenario.from_dict(tables), "u7")
    order = story.table["collection"].to_list()
    assert order[:6] == ["domains", "emojis", "domains", "domains", "emojis", "domains"]


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


def test_reports_that_contradict_the_scenario_fail_where_asked(files, tmp_path):
    pl.DataFrame({"user": ["ann"] * 600, "value": [29] * 600}).write_csv(tmp_path / "same.csv")
    asked = ("--reports", f"emojis={tmp_path / 'same.csv'}", "--scenario", files[2] / "two.toml", "--strict")
    with pytest.warns(UserWarning, match="reports repeat"):
        assert run(*asked).exit_code == 1
    with pytest.warns(UserWarning, match="reports repeat"):
        one = run(*asked, "--user", "ann", "--out", tmp_path / "story.csv")
    assert one.exit_code == 1
    # a long path is broken anywhere
    said = "".join(one.output.split())
    assert "same.csv:reportsrepeat:99.8%ofthemequalanearlieroneoftheiruser" in said
    assert "Reportbyreport:" in said


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--reports", "emojis"], "must be NAME=FILE"),
        (["--reports", "emoji=x.parquet"], "unknown collection, got 'emoji'; did you mean 'emojis'?"),
        (["--reports", "emojis=x.parquet"], "there is no such file"),
        (["--reports", "emojis=x.parquet", "--reports", "emojis=y.parquet"], "a collection must have one file"),
        (["--reports", "emojis=x.parquet", "--link-fdr", "0.1"], "cannot be combined with `reports`"),
        (["x.parquet", "--reports", "emojis=x.parquet"], "cannot be combined with `reports` NAME=FILE"),
        (["x.parquet"], "has several collections; give the file of each, `reports` emojis=FILE"),
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


def test_one_user_of_several_files(files, tmp_path):
    """A table is written; a name that no file has, and a file that is read, are refused."""
    _, made, folder = files
    both = [word for name, path in made.items() for word in ("--reports", f"{name}={path}")]
    one = [*both, "--scenario", folder / "two.toml"]
    assert run(*one, "--user", "u4", "--out", tmp_path / "u4.csv").exit_code == 0
    written = pl.read_csv(tmp_path / "u4.csv")
    assert written["collection"].unique().to_list() == ["domains"]
    assert written["n"].to_list() == list(range(1, written.height + 1))
    alone = run(*both[:2], "--scenario", folder / "two.toml", "--user", "u0", "--json")
    assert {row["collection"] for row in json.loads(alone.stdout)["table"]} == {"emojis"}
    for words, message in (
        (["--user", "ux"], "user: must be a user of one of the files, got 'ux'"),
        (["--user", "u1", "--out", made["emojis"], "--overwrite"], "the output must not be a file that is read"),
    ):
        assert message in str(run(*one, *words).exception)


def test_a_scenario_of_one_collection_is_refused(files):
    _, made, _ = files
    with pytest.raises(InputError, match=r"must have \[\[collection\]\]"):
        ps.attack_collections(made, ps.load_scenario("apple-emojis"))


@pytest.mark.parametrize("form", ["matrix", "file"])
def test_a_link_assumed_by_an_adversary_may_be_a_matrix(files, tmp_path, form):
    found, made, _ = files
    rows = [[0.5, 0.5], [0.5, 0.5]]
    (tmp_path / "link.csv").write_text("value,left,right\nleft,0.5,0.5\nright,0.5,0.5\n")
    tables = found.to_dict()
    tables["adversary"] = [{**ADVERSARY[0], "links": {"emojis": rows if form == "matrix" else "link.csv"}}]
    other = ps.Scenario.from_dict(tables, folder=tmp_path)
    result = ps.attack_collections({"emojis": made["emojis"]}, other)
    assert [row["confidence"] for row in result.preview] == pytest.approx([2 / 3] * len(result.preview))
    assert build_joint_game(other, 1).links("strong")[0].tolist() == rows


def test_a_link_assumed_by_an_adversary_is_used(files, tmp_path):
    found, made, _ = files
    other = scenario(EMOJIS, DOMAINS, WORDS, adversary=[{**ADVERSARY[0], "links": {"emojis": 0.5}}])
    ps.attack_collections({"emojis": made["emojis"]}, other, out=tmp_path / "none.parquet")
    assert pl.read_parquet(tmp_path / "none.parquet")["confidence"].to_numpy() == pytest.approx(2 / 3)
    ps.attack_collections({"emojis": made["emojis"]}, found, out=tmp_path / "some.parquet")
    assert pl.read_parquet(tmp_path / "some.parquet")["confidence"].max() > 0.7


def test_reports_beyond_a_cap_do_not_count():
    capped = {**EMOJIS, "devices": {"reports_per_day": 2, "cap": 12}}
    one, other = scenario(capped, DOMAINS).parts
    assert joint._counts(one, [3, 10, 20]) == [6, 12, 12]
    assert joint._counts(other, [3, 10, 20]) == [3, 10, 20]


@pytest.mark.parametrize("rows", mostly(slow, [1, 7], 7))
def test_users_may_be_read_in_batches_of_any_size(files, tmp_path, monkeypatch, rows):
    found, made, folder = files
    asked = {"ground_truth": folder / "truth.csv", "top": 4}
    whole = ps.attack_collections(made, found, out=tmp_path / "whole.parquet", **asked)
    monkeypatch.setattr("poolscope.workflows.attack.collection_join.BATCH_ROWS", rows)
    some = ps.attack_collections(made, found, out=tmp_path / "some.parquet", **asked)
    assert_frame_equal(pl.read_parquet(tmp_path / "some.parquet"), pl.read_parquet(tmp_path / "whole.parquet"))
    assert some.results == whole.results
    assert [row["user"] for row in some.top] == [row["user"] for row in whole.top]
    assert [(one.precision, one.guessed) for one in some.evaluation] == [
        (one.precision, one.guessed) for one in whole.evaluation
    ]
    assert [row["user"] for row in some.preview] == [row["user"] for row in whole.preview]
    assert some.exposure.equals(whole.exposure)


def test_summaries_are_sums_over_the_table(attacked):
    result, table = attacked
    last = table.filter(pl.col("n") == pl.col("n").max().over("user"))["confidence"]
    row = result.results[-1]
    assert row.confidence == pytest.approx(last.mean(), abs=1e-9)
    assert row.confident_at_threshold == {level: int((last >= level).sum()) for level in row.confident_at_threshold}
    for one in row.expected:
        assert one.users == (last >= one.level).sum()
        assert one.correct == pytest.approx(last.filter(last >= one.level).sum(), abs=1e-9)
    exposed = table.group_by("user").agg(pl.col("confidence").max())["confidence"]
    at = result.exposure.filter((pl.col("n") == 20) & (pl.col("threshold") == 0.5))
    assert at["share"].item() == (exposed >= 0.5).mean()
    assert result.exposure.filter(pl.col("n") < 3)["share"].max() == 0, "before the first day of guesses"


def test_what_each_collection_adds_to_the_log_odds_of_a_guess(files, tmp_path):
    found, made, _ = files
    result = ps.attack_collections(made, found, top=3, why=True)

    def odds(row, value):
        p = row[f"posterior.{value}"]
        return np.log(p / (1 - p))

    for name in made:
        ps.attack_collections({name: made[name]}, found, out=tmp_path / f"{name}.parquet")
    tables = {name: pl.read_parquet(tmp_path / f"{name}.parquet") for name in made}
    for row in result.top:
        for name, other in (("emojis", "domains"), ("domains", "emojis")):
            alone = tables[other].filter((pl.col("user") == row["user"]) & (pl.col("n") <= row[f"n.{other}"]))
            value = row["guess"]
            expected = odds(row, value) - odds(alone.sort("n").row(-1, named=True), value)
            assert row[f"log_odds_added.{name}"] == pytest.approx(expected, rel=1e-6)
    assert not any(name.startswith("log_odds_added") for name in result.preview[0])
    with pytest.raises(InputError, match="with `why`"):
        ps.attack_collections(made, found, why=True)


def test_the_page_and_the_json_of_several_collections(files, tmp_path):
    _, made, folder = files
    named = [word for name, path in made.items() for word in ("--reports", f"{name}={path}")]
    out = ("--scenario", folder / "two.toml", "--out", tmp_path / "p.parquet", "--html", tmp_path / "p.html")
    done = run(*named, *out, "--ground-truth", folder / "truth.csv", "--top", 2, "--why", "--json")
    assert done.exit_code == 0, done.output
    record = json.loads(done.stdout)
    Draft202012Validator(schema_of("attack")).validate(record)
    assert record["users"] == 30
    assert record["inspection"] is None
    assert [(one["name"], one["users"]) for one in record["collections"]] == [("emojis", 29), ("domains", 29)]
    assert [row["n"] for row in record["results"]] == [3, 10, 20]
    assert {"log_odds_added.emojis", "log_odds_added.domains"} <= set(record["top"][0])
    page = (tmp_path / "p.html").read_text()
    for text in (
        *("Exposure against days", "After 20 days, the strong adversary", "2 values of leaning: left, right"),
        *("Checks of the reports of emojis", "Evaluation against the ground truth", "Most confident guesses"),
        *("An adversary who assumes too close a link is overconfident", "log-odds from"),
        record["top"][0]["user"],
    ):
        assert text in page
    assert "from\\nemojis" not in done.stderr
    assert "n counts days. Log-odds from a collection" in " ".join(done.stderr.split())


def test_a_single_day_of_all_reports_has_no_curve(files):
    _, made, _ = files
    plain = scenario(adversary=ADVERSARY, attack=None)
    assert ps.attack_collections(made, plain).exposure is None


def test_one_user_as_json(files):
    _, made, folder = files
    named = [word for name, path in made.items() for word in ("--reports", f"{name}={path}")]
    done = run(*named, "--scenario", folder / "two.toml", "--user", "u7", "--json")
    assert done.exit_code == 0, done.output
    record = json.loads(done.stdout)
    assert record["user"] == "u7"
    assert record["reports"] == len(record["table"]) == 60


def test_a_wrong_page_leaves_nothing(files, tmp_path):
    _, made, folder = files
    words = ("--reports", f"emojis={made['emojis']}", "--scenario", folder / "two.toml")
    same = run(*words, "--out", tmp_path / "p.parquet", "--html", tmp_path / "p.txt")
    assert "an output must end in .html" in str(same.exception)
    assert list(tmp_path.iterdir()) == []
