"""What devices limit, in the commands: the scenario's table, files of reports, comparisons, pages."""

import json
import warnings

import numpy as np
import polars as pl
import pytest
from typer.testing import CliRunner

from poolscope.cli.commands import app
from poolscope.core.errors import InputError
from poolscope.core.randomness import user_keys
from poolscope.html.audit import write_page
from poolscope.mechanisms import ReportingPolicy
from poolscope.scenario.build import build_device, build_game, build_mechanism, build_policy
from poolscope.scenario.scenario import parse
from poolscope.workflows.attack.attack import attack
from poolscope.workflows.audit.audit import audit
from poolscope.workflows.audit.run_folder import read_run
from poolscope.workflows.compare import compare
from poolscope.workflows.obfuscate import obfuscate

SCENARIO = """
[universe]
size = 60
pools = { a = 8, b = 8, c = 12 }
[popularity]
kind = "zipf"
exponent = 1
[mechanism]
kind = "grr"
epsilon = 3
[devices]
reports_per_day = 2
sampling_rate = 0.6
rotate_after = 3
cap = 7
[users]
count = 40
[[adversary]]
name = "strong"
popularity = "true"
[attack]
observations = [4, 20]
"""


def limited(**changes):
    text = SCENARIO
    for key, value in changes.items():
        line = next(line for line in SCENARIO.splitlines() if line.startswith(f"{key} ="))
        text = text.replace(line, "" if value is None else f"{key} = {value}")
    return parse(text, name="limited")


def test_the_table_says_what_is_sent():
    game = build_game(limited(), 1)
    assert game.policy == ReportingPolicy(reports_per_day=2.0, sampling_rate=0.6, rotate_after=3, cap=7)
    free = parse(SCENARIO[: SCENARIO.index("[devices]")] + SCENARIO[SCENARIO.index("[users]") :], name="free")
    assert build_game(free, 1).policy == ReportingPolicy()
    assert "devices" not in free.dump()
    assert limited().dump()["devices"]["cap"] == 7


@pytest.mark.parametrize(
    ("key", "value", "rule"),
    [
        ("reports_per_day", "0", r"devices\.reports_per_day: must be positive, got 0"),
        ("reports_per_day", "inf", r"devices\.reports_per_day: must be finite"),
        ("reports_per_day", '"often"', r"devices\.reports_per_day: must be a number"),
        ("sampling_rate", "0", r"devices\.sampling_rate: must be positive"),
        ("sampling_rate", "1.5", r"devices\.sampling_rate: must be at most 1, got 1.5"),
        ("sampling_rate", "-0.5", r"devices\.sampling_rate: must be positive"),
        ("sampling_rate", "nan", r"devices\.sampling_rate: must be finite"),
        ("rotate_after", "0", r"devices\.rotate_after: must be at least 1, got 0"),
        ("rotate_after", "2.5", r"devices\.rotate_after: must be an integer"),
        ("cap", "-3", r"devices\.cap: must be at least 1, got -3"),
        ("cap", "true", r"devices\.cap: must be an integer"),
        ("cap", "7\nrotate_afte = 3", r"devices\.rotate_afte: unknown key.*rotate_after"),
    ],
)
def test_nonsense_is_one_line(key, value, rule):
    with pytest.raises(InputError, match=rule) as refused:
        limited(**{key: value})
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    "key", ["memoize = true", "cap = 5", "sampling_rate = 0.5", "rotate_after = 7", "reports_per_day = 1"]
)
def test_keys_of_devices_are_no_mechanisms(key):
    name = key.split()[0]
    with pytest.raises(InputError, match=rf"mechanism\.{name}: .*write {name} in a table \[devices\]"):
        parse(SCENARIO.replace("epsilon = 3\n", f"epsilon = 3\n{key}\n"), name="x")


def written(tmp_path, scenario, traces, users):
    """The reports of traces (users, events) whose rows alternate between users."""
    path, out = tmp_path / "traces.parquet", tmp_path / "reports.parquet"
    rows = {"user": np.tile(np.array(users), traces.shape[1]), "object": traces.T.ravel()}
    pl.DataFrame(rows).write_parquet(path)
    done = obfuscate(path, scenario, out, seed=3)
    return done, pl.read_parquet(out)


@pytest.mark.parametrize(
    "changes", [{}, {"rotate_after": None}, {"sampling_rate": None, "cap": None}, {"cap": 500, "sampling_rate": 1e-9}]
)
def test_obfuscate_sends_what_the_game_does(tmp_path, changes):
    scenario, users = limited(**changes), ["ann", "bob", "eve"]
    traces = np.random.default_rng(5).integers(0, 60, (3, 30))
    done, reports = written(tmp_path, scenario, traces, users)
    keys, policy = user_keys(3, np.arange(3)), build_policy(scenario)
    sent = policy.select_events(traces, keys)
    values = sent.reports(build_device(scenario, build_mechanism(scenario, scenario.universe())), keys)["value"]
    assert (done.users, done.reports) == (3, sent.lengths.sum()) == (3, reports.height)
    expected = np.split(values, np.cumsum(sent.lengths)[:-1])
    for user, own in zip(users, expected, strict=True):
        mine = reports.filter(pl.col("user").str.replace("#.*", "") == user)
        np.testing.assert_array_equal(mine["value"].cast(pl.Int64), own)
        if policy.rotate_after:
            assert mine["user"].to_list() == [f"{user}#{i // 3 + 1}" for i in range(len(own))]


def test_numbered_users_have_pseudonyms_too(tmp_path):
    traces = np.random.default_rng(5).integers(0, 60, (2, 30))
    _, reports = written(tmp_path, limited(sampling_rate=None), traces, [7, 12])
    assert set(reports["user"]) == {f"{user}#{i}" for user in (7, 12) for i in (1, 2, 3)}
    with pytest.warns(UserWarning, match="linked by the user names in the file"):
        found = attack(tmp_path / "reports.parquet", limited())
    assert found.users == 6
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        attack(tmp_path / "reports.parquet", limited(rotate_after=None))


def test_audit_tells_what_devices_do(tmp_path):
    summary = audit(limited(), tmp_path / "run", seed=2)
    kept = json.loads((tmp_path / "run" / "summary.json").read_text())
    assert kept["epsilon"] == {"report": 3.0, "day": pytest.approx(3.6), "year": 21.0, "total": 21.0, "response": None}
    assert kept["reports_per_day"] == 2.0
    assert kept["devices"][0] == "grr, ε = 3 per report, 1.2 reports per day on average: 21 in total"
    run = read_run(tmp_path / "run")
    assert run.summary.epsilon == summary.epsilon
    page = write_page(run).read_text()
    for phrase in (kept["devices"][0], "the pseudonym rotates after 3 reports", "20 (10 days)"):
        assert phrase in page
    # what older versions have written lacks these fields
    for name in ("epsilon", "reports_per_day", "devices"):
        del kept[name]
    (tmp_path / "run" / "summary.json").write_text(json.dumps(kept))
    assert "days)" not in write_page(read_run(tmp_path / "run")).read_text()


def test_a_run_without_epsilon_is_json(tmp_path):
    text = SCENARIO.replace('kind = "grr"\nepsilon = 3', 'kind = "identity"')
    audit(parse(text, name="shown"), tmp_path / "run", users=5)
    assert json.loads((tmp_path / "run" / "summary.json").read_text())["epsilon"]["year"] == "inf"
    assert read_run(tmp_path / "run").summary.epsilon.report == float("inf")


def test_comparisons_are_of_the_same_devices():
    done = compare(limited(), ["grr", "oue"], [1.0, 3.0], users=30, estimate_from=1000)
    assert {record.composition_bound for record in done.results} == {3.0, 9.0}, "of the three reports of a window"
    assert done.devices[0] == "ε = 1, 3 per report, 1.2 reports per day on average: 7, 21 in total"
    assert [epsilon["year"] for epsilon in done.as_json()["epsilons"]] == [7.0, 21.0]
    free = compare(
        limited(rotate_after=None, cap=None, sampling_rate=None), ["grr"], [3.0], users=30, estimate_from=1000
    )
    assert free.results[0].composition_bound == 60.0
    assert free.results[0].auc_pn != next(r for r in done.results if (r.mechanism, r.epsilon) == ("grr", 3.0)).auc_pn


def test_the_terminal_tells_it(tmp_path):
    path = tmp_path / "limited.toml"
    path.write_text(SCENARIO)
    done = CliRunner().invoke(app, ["audit", str(path), "--out", str(tmp_path / "run"), "--users", "20"])
    assert done.exit_code == 0, done.output
    for phrase in ("ε = 3 per report, 1.2 reports per day on average: 21 in total", "n = 4, 20: 2, 10 days"):
        assert phrase in done.output


@pytest.mark.parametrize("cap", [None, 4])
def test_a_user_with_fewer_events_has_no_more_reports(cap):
    policy = ReportingPolicy(cap=cap)
    sent = policy.select_events(np.arange(10).reshape(2, 5), np.arange(2, dtype=np.uint64), np.array([5, 3]))
    assert sent.counts([2, 4, 5]).tolist() == [[2, 4, cap or 5], [2, 3, 3]]
