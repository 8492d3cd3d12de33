"""Pseudonyms of a file joined to devices before they are attacked."""

import polars as pl
import pytest
from cases.report_files import command, game_traces, scenario_of, write_traces
from cases.synthetic import SEED
from distributed import Client

import poolscope as ps
from poolscope.core.errors import InputError
from poolscope.workflows.attack.attack import attack
from poolscope.workflows.attack.one_user import attack_user
from poolscope.workflows.obfuscate import obfuscate

STRONG = "[[adversary]]\nname = 'strong'\npopularity = 'true'\n"
NAIVE = "[[adversary]]\nname = 'naive'\npopularity = 'true'\nknows_memoization = false\n"
SKETCH = "kind = 'cms'\nepsilon = 4\nm = 256\nhashes = 64\n"
#: Much noise that is kept, and little that is new.
BLOOM = "kind = 'rappor'\nm = 64\nhashes = 2\ncohorts = 2\nf = 0.5\np = 0.02\nq = 0.98\n"
WINDOW, WINDOWS, USERS, RATE = 10, 3, 6, 1e-3
ATTACK = f"[attack]\nobservations = [{WINDOW}, 30]\n"


def sent(
    tmp_path, mechanism, adversaries=STRONG + NAIVE, *, attack=ATTACK, memoize=True, ending="parquet", interleaved=True
):
    """Three pseudonyms of each of the users of a game; the first of user 5 is 5#1."""
    keep = "memoize = true\n" if memoize else ""
    text = f"{mechanism}[devices]\n{keep}rotate_after = {WINDOW}\n"
    scenario = scenario_of(tmp_path, mechanism=text, adversaries=adversaries, attack=attack)
    game = scenario_of(tmp_path, mechanism=text, adversaries=STRONG, attack=attack, name="game.toml").game(SEED)
    write_traces(tmp_path / "traces.parquet", game_traces(game, USERS, SEED), interleaved=interleaved)
    (tmp_path / f"reports.{ending}").unlink(missing_ok=True)
    obfuscate(tmp_path / "traces.parquet", scenario, path := tmp_path / f"reports.{ending}", SEED)
    return scenario, path


def device(names):
    return names.str.split("#").list.first()


@pytest.mark.default_cases("True-*")
@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(
    "mechanism", [pytest.param(SKETCH, id="cms", marks=pytest.mark.slow), pytest.param(BLOOM, id="rappor")]
)
@pytest.mark.parametrize("interleaved", [True, False])
def test_joined_devices_are_attacked_as_if_the_file_had_named_them(tmp_path, mechanism, interleaved):
    """To the bit; nobody is joined to another, and hardly any pseudonym stays apart."""
    scenario, path = sent(tmp_path, mechanism, interleaved=interleaved)
    # reports of two pseudonyms, so few that chains are short
    few = {"observations": [WINDOW + 2]}
    found = attack(path, scenario, out=tmp_path / "found.parquet", link_fdr=RATE, **few)
    table = found.joined.table
    assert (device(table["pseudonym"]) == device(table["user"])).all()
    assert found.users == found.joined.devices == table["user"].n_unique()
    assert found.joined.pseudonyms == WINDOWS * USERS
    assert USERS <= found.users <= 1.25 * USERS
    assert found.joined.refused == 0
    named = pl.read_parquet(path).with_columns(pl.col("user").replace(table["pseudonym"], table["user"]))
    named.write_parquet(tmp_path / "named.parquet")
    kept = f"{mechanism}[devices]\nmemoize = true\n"
    other = scenario_of(tmp_path, mechanism=kept, adversaries=STRONG + NAIVE, attack=ATTACK, name="named.toml")
    attack(tmp_path / "named.parquet", other, out=tmp_path / "expected.parquet", **few)
    posteriors = pl.read_parquet(tmp_path / "found.parquet")
    assert posteriors.drop("pseudonyms").equals(pl.read_parquet(tmp_path / "expected.parquet"))
    counts = dict(table.group_by("user").len().rows())
    assert dict(posteriors.select("user", "pseudonyms").rows()) == counts
    assert posteriors["n"].max() == WINDOW + 2


@pytest.mark.cluster
@pytest.mark.slow
def test_the_same_out_of_csv_and_on_a_cluster_with_little_memory(tmp_path):
    scenario, path = sent(tmp_path, SKETCH, STRONG)
    attack(path, scenario, out=tmp_path / "here.parquet", link_fdr=RATE)
    here = pl.read_parquet(tmp_path / "here.parquet")
    with Client(processes=False, n_workers=1, threads_per_worker=1, dashboard_address=None) as client:
        attack(path, scenario, out=tmp_path / "there.parquet", link_fdr=RATE, engine=ps.Dask(client=client))
    assert here.equals(pl.read_parquet(tmp_path / "there.parquet"))
    attack(path, scenario, out=tmp_path / "small.parquet", link_fdr=RATE, max_bytes=1 << 18)
    assert here.equals(pl.read_parquet(tmp_path / "small.parquet"))
    again, text = sent(tmp_path, SKETCH, STRONG, ending="csv")
    attack(text, again, out=tmp_path / "text.parquet", link_fdr=RATE)
    assert here.equals(pl.read_parquet(tmp_path / "text.parquet"))


@pytest.mark.slow
def test_numbers_are_names_too(tmp_path):
    scenario, path = sent(tmp_path, SKETCH, STRONG)
    frame = pl.read_parquet(path)
    numbers = dict(zip(frame["user"].unique(maintain_order=True), range(100, 200), strict=False))
    frame.with_columns(pl.col("user").replace_strict(numbers, return_dtype=pl.Int32)).write_parquet(path)
    found = attack(path, scenario, out=tmp_path / "out.parquet", link_fdr=RATE)
    assert found.users < WINDOWS * USERS
    assert pl.read_parquet(tmp_path / "out.parquet")["user"].dtype.is_integer()
    assert found.joined.table["user"].dtype.is_integer()


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["kind = 'grr'\nepsilon = 4\n", "kind = 'cms'\nepsilon = 2\nm = 4\nhashes = 2\n"])
def test_answers_that_everybody_has_join_nobody(tmp_path, kind):
    scenario, path = sent(tmp_path, kind, STRONG)
    found = attack(path, scenario, link_fdr=RATE)
    assert found.users == WINDOWS * USERS
    assert found.joined.links == 0
    assert found.joined.table["log_e_value"].null_count() == WINDOWS * USERS


def test_two_names_at_once_are_no_device(tmp_path):
    """A file in no order of time: what would be joined is told and left apart."""
    scenario, path = sent(tmp_path, SKETCH, STRONG)
    pl.read_parquet(path).sample(fraction=1.0, shuffle=True, seed=SEED).write_parquet(path)
    found = attack(path, scenario, link_fdr=RATE)
    assert found.joined.refused > USERS
    assert found.users == found.joined.pseudonyms == WINDOWS * USERS


@pytest.mark.slow
def test_a_story_is_a_device_s(tmp_path):
    scenario, path = sent(tmp_path, SKETCH, STRONG)
    table = attack(path, scenario, link_fdr=RATE).joined.table
    pseudonym, user = table.filter(pl.col("pseudonym") != pl.col("user")).select("pseudonym", "user").row(0)
    story = attack_user(path, scenario, pseudonym, link_fdr=RATE)
    assert story.user == user
    assert story.reports == WINDOW * table["user"].to_list().count(user)


@pytest.mark.slow
def test_the_truth_may_name_any_pseudonym(tmp_path):
    scenario, path = sent(tmp_path, SKETCH, STRONG)
    last = [{"user": f"{user}#{WINDOWS}", "pool": "a"} for user in range(USERS)]
    pl.DataFrame(last).write_csv(tmp_path / "truth.csv")
    (evaluation,) = attack(
        path, scenario, out=tmp_path / "o.parquet", link_fdr=RATE, ground_truth=tmp_path / "truth.csv"
    ).evaluation
    assert evaluation.users == USERS


@pytest.mark.parametrize("rate", [0.0, 1.0, -1.0, float("nan")])
def test_a_rate_is_a_share(tmp_path, rate):
    scenario, path = sent(tmp_path, SKETCH, STRONG)
    with pytest.raises(InputError, match=r"link_fdr: must be above 0 and below 1, .*; 0\.001 is one in 1,000"):
        attack(path, scenario, link_fdr=rate)


def test_what_cannot_be_joined_is_refused(tmp_path):
    rule = r"small\.toml: adversary: must have an adversary with knows_memoization, to link pseudonyms"
    scenario, path = sent(tmp_path, SKETCH, NAIVE)
    with pytest.raises(InputError, match=rule):
        attack(path, scenario, link_fdr=RATE)
    scenario, path = sent(tmp_path, SKETCH, STRONG, memoize=False)
    rule = r"small\.toml: devices: must have devices that memoize, .*; if they do, set memoize = true"
    with pytest.raises(InputError, match=rule):
        attack(path, scenario, link_fdr=RATE)
    scenario, path = sent(tmp_path, SKETCH, STRONG)
    rule = r"reports\.parquet: must have at most \d+ reports to link pseudonyms, got 180; use a subset of"
    with pytest.raises(InputError, match=rule):
        attack(path, scenario, link_fdr=RATE, max_bytes=1 << 14)


def test_the_command(tmp_path, monkeypatch, capsys):
    # two pseudonyms of each user: a posterior after each of 15 reports
    sent(tmp_path, SKETCH, attack=ATTACK.replace("30", "15"))
    monkeypatch.chdir(tmp_path)
    at = "attack", "reports.parquet", "--scenario", "small.toml"
    more = "--out", "out.csv", "--linked-out", "devices.csv", "--html", "out.html"
    assert command(*at, "--link-fdr", 0.001, *more) == 0
    shown = capsys.readouterr()
    assert "12 pseudonyms linked to 6" in " ".join(shown.out.split())
    assert "expected false discovery rate at most 0.1%" in " ".join(shown.out.split())
    assert "reports are linked by the users" not in shown.err
    assert pl.read_csv("devices.csv").columns == ["pseudonym", "user", "log_e_value"]
    assert pl.read_csv("out.csv").columns[-2:] == ["confidence_mcse", "pseudonyms"]
    page = (tmp_path / "out.html").read_text()
    assert "12 pseudonyms linked to" in page
    assert "--link-fdr 0.001" in page
    assert command(*at, "--link-fdr", 0.001, "--user", "3#2") == 0
    assert "3#1" in capsys.readouterr().out
    assert command(*at, "--linked-out", "devices.csv") == 2
    assert "--linked-out: must have --link-fdr, the share of links that may be wrong" in capsys.readouterr().err
    assert command(*at, "--link-fdr", 0.001, "--out", "x.csv", "--linked-out", "x.csv") == 2
    assert "--linked-out: must be another file than that of --out" in capsys.readouterr().err
    assert command(*at) == 0
    assert "--link-fdr links pseudonyms by memoized responses" in " ".join(capsys.readouterr().err.split())
