"""Files of reports of devices that keep their answers: grouped as the library and the game group them, to the bit."""

import numpy as np
import polars as pl
import pytest
from cases.report_files import ATTACK, command, game_traces, scenario_of, write_traces
from cases.selection import mostly, slow
from cases.synthetic import SEED
from distributed import Client

import poolscope as ps
from poolscope.core.errors import InputError
from poolscope.core.executors import Local
from poolscope.core.tables.sources import DEFAULT
from poolscope.devices.protocols import MemoizingDevice
from poolscope.reports.files import read_reports
from poolscope.scenario.build import build_device, build_mechanism
from poolscope.workflows.attack.attack import attack
from poolscope.workflows.attack.one_user import attack_user
from poolscope.workflows.attack.preparation import prepare_attack
from poolscope.workflows.obfuscate import obfuscate

pytestmark = pytest.mark.usefixtures("short_chains")

KEPT = "[devices]\nmemoize = true\n"
AGAIN = f"{KEPT}instantaneous = {{ kind = 'grr', epsilon = 4 }}\n"
KINDS = {
    "cms": f"kind = 'cms'\nepsilon = 4\nm = 32\nhashes = 64\n{KEPT}",
    "grr": f"kind = 'grr'\nepsilon = 4\n{KEPT}",
    "rappor": f"kind = 'rappor'\nepsilon = 4\nm = 16\ncohorts = 4\n{KEPT}",
    "l-grr": "kind = 'l-grr'\nepsilon = 4\n",
    "l-sue": "kind = 'l-sue'\nepsilon_perm = 9\nepsilon_1 = 4\n",
    "l-osue": "kind = 'l-osue'\nepsilon = 4\nepsilon_perm = 6\n",
    "l-oue": "kind = 'l-oue'\nepsilon = 4\n",
    "l-soue": "kind = 'l-soue'\nepsilon = 4\n",
    "loloha": "kind = 'loloha'\nepsilon = 4\n",
    "dbitflip": "kind = 'dbitflip'\nepsilon = 4\nd = 12\n",
    "grr-again": f"kind = 'grr'\nepsilon = 6\n{AGAIN}",
    "olh-again": f"kind = 'olh'\nepsilon = 5\n{AGAIN}",
}
GROUPING = "[[adversary]]\nname = 'grouping'\npopularity = 'true'\n"
CURIOUS = "[[adversary]]\nname = 'curious'\npopularity = 'estimated'\n"
SINGLE = "[[adversary]]\nname = 'single'\npopularity = 'true'\nknows_memoization = false\n"
USERS = 6


def sent(tmp_path, kind, adversaries=GROUPING, ending="parquet", users=USERS, attack=ATTACK):
    """A scenario, and a file of what the devices of its game's users send."""
    scenario = scenario_of(tmp_path, mechanism=KINDS[kind], adversaries=adversaries, attack=attack)
    game = scenario_of(tmp_path, mechanism=KINDS[kind], adversaries=GROUPING, attack=attack, name="game.toml").game(
        SEED
    )
    write_traces(tmp_path / "traces.parquet", game_traces(game, users, SEED), interleaved=True)
    obfuscate(tmp_path / "traces.parquet", scenario, path := tmp_path / f"reports.{ending}", SEED)
    return scenario, path


def of_users(path, scenario):
    """The reports of each user of a file."""
    mechanism = build_mechanism(scenario, scenario.universe())
    users, reports = read_reports(path, mechanism, scenario.universe())
    return {
        user: {name: column[(users == user).to_numpy()] for name, column in reports.items()}
        for user in users.unique(maintain_order=True)
    }


def adversaries_of(path, scenario):
    with prepare_attack(path, DEFAULT, scenario, None, None, 0, 1 << 30, Local(), path.parent) as ready:
        return ready.scorer.adversaries


@pytest.mark.default_cases("cms")
@pytest.mark.parametrize("kind", mostly(slow, KINDS, "cms", "loloha"))
def test_posteriors_are_those_of_the_library(tmp_path, kind):
    """Whatever the file's kind, and however small the crowds are."""
    scenario, path = sent(tmp_path, kind)
    device = build_device(scenario, build_mechanism(scenario, scenario.universe()))
    assert isinstance(device, MemoizingDevice)
    attack(path, scenario, out=tmp_path / "whole.parquet")
    attack(path, scenario, out=tmp_path / "small.parquet", max_bytes=1 << 14)
    attack(path, scenario, out=tmp_path / "one.parquet", observations=[10])
    found = pl.read_parquet(tmp_path / "whole.parquet")
    assert found.equals(pl.read_parquet(tmp_path / "small.parquet"))
    columns, last = pl.exclude("^exposed.*$"), found.filter(pl.col("n") == 10)
    assert last.select(columns).equals(pl.read_parquet(tmp_path / "one.parquet").select(columns))
    (adversary,) = adversaries_of(path, scenario)
    for user, reports in of_users(path, scenario).items():
        mine = found.filter(pl.col("user") == user)
        assert mine["n"].to_list() == [3, 10]
        expected = ps.posterior(device, reports, adversary, observations=[3, 10])
        assert np.array_equal(mine.select("^posterior\\..*$").to_numpy(), expected)
        sure = [n for n, row in zip((0, 3, 10), [np.full(3, 1 / 3), *expected], strict=True) if row.max() >= 0.5]
        assert mine["exposed_at_50"].to_list() == [sure[0] if sure else None] * 2


@pytest.mark.parametrize("kind", mostly(slow, KINDS, "rappor"))
def test_posteriors_are_those_of_the_game(tmp_path, kind):
    """Also out of CSV, beside one who takes every report by itself."""
    scenario, path = sent(tmp_path, kind, GROUPING + SINGLE, ending="csv")
    attack(path, scenario, out=tmp_path / "found.parquet", seed=SEED)
    found = pl.read_parquet(tmp_path / "found.parquet").with_columns(pl.col("user").cast(pl.Int64))
    played = ps.play(scenario.game(SEED), USERS, SEED).with_columns(pl.col("adversary").cast(pl.String))
    columns = "adversary", "user", "n", "confidence", "exposed_at_50", "exposed_at_90"
    beside = [table.sort("adversary", "user", "n").select(columns) for table in (found, played)]
    for name in columns:
        assert beside[0][name].to_list() == beside[1][name].to_list(), name
    # keys of users differ, so that between pools that are as likely, and only there, other ones may be guessed
    found, played = (table.sort("adversary", "user", "n") for table in (found, played))
    same = found["guess"] == played["guess"].cast(pl.String)
    likeliest = np.sort(found.select("^posterior\\..*$").to_numpy(), axis=1)
    assert same.filter(likeliest[:, -1] - likeliest[:, -2] > 1e-12).all()
    assert same.any()
    assert found["confidence_mcse"].filter(same).equals(played["confidence_mcse"].filter(same))


@pytest.mark.cluster
@pytest.mark.slow
def test_on_a_cluster_as_here(tmp_path):
    """Reports go through the workers' files as masses do."""
    scenario, path = sent(tmp_path, "loloha", GROUPING + SINGLE)
    attack(path, scenario, out=tmp_path / "here.parquet")
    with Client(processes=False, n_workers=1, threads_per_worker=1, dashboard_address=None) as client:
        attack(path, scenario, out=tmp_path / "there.parquet", engine=ps.Dask(client=client))
    assert pl.read_parquet(tmp_path / "here.parquet").equals(pl.read_parquet(tmp_path / "there.parquet"))


def test_all_reports_where_the_scenario_asks_for_no_count(tmp_path):
    scenario = scenario_of(tmp_path, mechanism=KINDS["grr"], adversaries=GROUPING, attack="")
    frame = pl.DataFrame({"user": ["ann"] * 5 + ["bob"], "value": [3, 3, 7, 20, 3, 9]})
    frame.write_parquet(path := tmp_path / "reports.parquet")
    found = attack(path, scenario, out=tmp_path / "out.parquet")
    assert [(row["user"], row["n"]) for row in sorted(found.preview, key=lambda row: row["user"])] == [
        ("ann", 5),
        ("bob", 1),
    ]
    (adversary,) = adversaries_of(path, scenario)
    device = build_device(scenario, build_mechanism(scenario, scenario.universe()))
    own = {"value": np.array([3, 3, 7, 20, 3])}
    ann = pl.read_parquet(tmp_path / "out.parquet").filter(pl.col("user") == "ann")
    expected = ps.posterior(device, own, adversary, observations=[5])
    assert np.array_equal(ann.select("^posterior\\..*$").to_numpy(), expected)


def test_a_story_has_the_answers_and_the_belief_after_each(tmp_path):
    scenario, path = sent(tmp_path, "cms", GROUPING + SINGLE)
    user, reports = next(iter(of_users(path, scenario).items()))
    story = attack_user(path, scenario, user)
    grouping, single = story.table.partition_by("adversary", maintain_order=True)
    device = build_device(scenario, build_mechanism(scenario, scenario.universe()))
    for adversary, rows in zip(adversaries_of(path, scenario), (grouping, single), strict=True):
        expected = ps.posterior(device, reports, adversary)[1:]
        assert np.allclose(rows.select("^posterior\\..*$").to_numpy(), expected, rtol=0, atol=1e-12)
    keys = [(int(h), bits.tobytes()) for h, bits in zip(reports["hash"], reports["bits"], strict=True)]
    assert grouping["response"].to_list() == [keys.index(key) + 1 for key in keys]
    assert len(set(keys)) < len(keys)
    assert single["response"].null_count() == len(keys)


def test_noise_hides_which_answers_are_the_same(tmp_path):
    scenario, path = sent(tmp_path, "l-grr", attack=ATTACK.replace("[3, 10]", "[3]"))
    assert attack_user(path, scenario, "0").table["response"].null_count() == 3
    other = scenario_of(tmp_path, mechanism=KINDS["l-grr"], adversaries=SINGLE, name="other.toml")
    assert "response" not in attack_user(path, other, "0").table.columns


@pytest.mark.parametrize(("kind", "column"), [("rappor", "cohort"), ("loloha", "seed"), ("dbitflip", "positions")])
def test_what_a_device_keeps_is_one_in_all_reports(tmp_path, kind, column):
    scenario, path = sent(tmp_path, kind)
    joined = pl.read_parquet(path).with_columns(user=pl.lit("ann"))
    joined.write_parquet(path)
    rule = rf"reports\.parquet: user ann: must have one {column} in all reports, .*; or set knows_memoization = false"
    for verb in (attack, lambda *given: attack_user(*given, "ann")):
        with pytest.raises(InputError, match=rule):
            verb(path, scenario)
    alone = scenario_of(tmp_path, mechanism=KINDS[kind], adversaries=SINGLE, name="other.toml")
    assert attack(path, alone).users == 1


@pytest.mark.slow
def test_an_adversary_learns_the_popularity_and_groups(tmp_path):
    """What is estimated from the reports themselves is what `estimate` finds."""
    scenario, path = sent(tmp_path, "grr", CURIOUS, users=40)
    (adversary,) = adversaries_of(path, scenario)
    assert adversary.knows_memoization
    assert np.array_equal(adversary.popularity, ps.estimate(path, scenario).table["popularity"].to_numpy())
    assert attack(path, scenario, out=tmp_path / "out.parquet", top=2).top


def test_the_command(tmp_path, monkeypatch, capsys):
    """Truth, page, surest users and one user's story."""
    monkeypatch.chdir(tmp_path)
    scenario = scenario_of(tmp_path, mechanism=KINDS["cms"], adversaries=GROUPING, name="kept.toml")
    write_traces(tmp_path / "traces.csv", game_traces(scenario.game(SEED), USERS, SEED))
    (tmp_path / "truth.csv").write_text("user,pool\n" + "".join(f"{user},a\n" for user in range(USERS)))
    at = "--scenario", "kept.toml"
    assert command("obfuscate", "traces.csv", *at, "--out", "reports.csv") == 0
    more = "--out", "out.csv", "--ground-truth", "truth.csv", "--html", "out.html", "--top", 2
    assert command("attack", "reports.csv", *at, *more) == 0
    assert "grouping" in (tmp_path / "out.html").read_text()
    capsys.readouterr()
    assert command("attack", "reports.csv", *at, "--user", "0") == 0
    facts = capsys.readouterr().out
    assert "response: first report with the same memoized response" in " ".join(facts.split())
