"""`inspect`: each check fires on the file that it is for, stays silent on correct files, and is the attack's own."""

import json
import warnings

import numpy as np
import polars as pl
import pytest
from cases.command_line import poolscope
from cases.report_files import write_reports
from cases.selection import statistical
from cases.synthetic import SEED
from jsonschema import Draft202012Validator
from scipy import stats

import poolscope as ps
from poolscope.cli.schemas import schema_of
from poolscope.core.randomness import user_keys
from poolscope.core.tables import open_table
from poolscope.mechanisms import device_of, make, reports_of
from poolscope.population.behavior import Behavior, draw_traces, draw_users
from poolscope.population.universe import Universe
from poolscope.reports.findings import Check
from poolscope.scenario.build import build_mechanism
from poolscope.workflows.attack import inspection

SIZE, USERS, EACH = 64, 300, 20
POOLS = [*np.repeat(["a", "b", "c"], 12).tolist(), *[""] * 28]
UNIVERSE = Universe.named([str(z) for z in range(SIZE)], POOLS)
POPULARITY = np.random.default_rng(SEED).permutation(1.0 / np.arange(1, SIZE + 1))
NAMES = np.repeat(np.arange(USERS), EACH)
CMS = {"epsilon": 3.0, "m": 64, "hashes": 64}
NAMES_OF_CHECKS = list(inspection.ORDER)


def traces_of(seed=SEED):
    people = draw_users(UNIVERSE, Behavior(), user_keys(seed, np.arange(USERS)))
    return draw_traces(UNIVERSE, POPULARITY, people, EACH)


def sent(kind, parameters, *, memoize=None, seed=SEED):
    device = device_of(make(kind, SIZE, parameters), memoize=memoize)
    return reports_of(device, traces_of(seed), user_keys(seed, np.arange(USERS)))


def scenario_in(folder, kind, parameters, *, popularity=POPULARITY, more=""):
    pl.DataFrame({"object": list(UNIVERSE.objects), "pool": POOLS, "popularity": popularity}).write_csv(
        folder / "objects.csv"
    )
    # to group memoized reports takes long
    naive = "knows_memoization = false\n" if "memoize = true" in more else ""
    written = "\n".join(f"{name} = {value!r}" for name, value in parameters.items())
    (folder / "mine.toml").write_text(
        f'[universe]\nobjects = "objects.csv"\n[mechanism]\nkind = "{kind}"\n{written}\n{more}'
        '[[adversary]]\nname = "strong"\npopularity = "given"\n' + naive
    )
    return ps.load_scenario(folder / "mine.toml")


def written(folder, scenario, reports, names=NAMES):
    path = folder / "reports.parquet"
    path.unlink(missing_ok=True)
    mechanism = build_mechanism(scenario, scenario.universe())
    write_reports(path, pl.Series(names), reports, mechanism, scenario.universe())
    return path


def failing(found):
    return [check.check for check in found.checks if check.status == "fail"]


def status_of(found, name):
    return next(check.status for check in found.checks if check.check == name)


@pytest.mark.parametrize(("kind", "parameters"), [("cms", CMS), ("oue", {"epsilon": 2.0}), ("grr", {"epsilon": 2.0})])
@pytest.mark.parametrize("memoize", [False, True])
def test_a_correct_file_passes(tmp_path, kind, parameters, memoize):
    scenario = scenario_in(tmp_path, kind, parameters, more=f"[devices]\nmemoize = {str(memoize).lower()}\n")
    path = written(tmp_path, scenario, sent(kind, parameters, memoize=memoize))
    found = ps.inspect(path, scenario)
    assert (failing(found), found.passed, found.reports, found.users) == ([], True, USERS * EACH, USERS)
    assert [check.check for check in found.checks] == [
        name
        for name in NAMES_OF_CHECKS
        if (name != "bit order" or kind != "grr") and (name != "hash table" or kind == "cms")
    ]
    assert status_of(found, "popularity") == "pass"


def reversed_bits(reports):
    bits = np.unpackbits(reports["bits"], axis=1, bitorder="big")
    return dict(reports) | {"bits": np.packbits(bits, axis=1, bitorder="little")}, NAMES


def of_another_table(reports):
    return dict(reports) | {"hash": np.random.default_rng(SEED).integers(64, size=len(NAMES))}, NAMES


def with_rows(rows):
    return lambda reports: ({name: column[rows] for name, column in reports.items()}, NAMES[rows])


def with_a_copied_user(reports):
    rows = np.concatenate([np.arange(len(NAMES)), np.arange(EACH)])
    return {name: column[rows] for name, column in reports.items()}, np.append(NAMES, np.full(EACH, USERS))


EVERY = np.arange(len(NAMES))
#: The check that fires, the status, how reports are made, what is done to them, and how they are read.
MISREAD = {
    "reversed bits": ("bit order", "fail", {}, reversed_bits, {}),
    "another epsilon": ("epsilon", "fail", {"epsilon": 1.0}, with_rows(EVERY), {}),
    "another hash table": ("hash table", "fail", {}, of_another_table, {}),
    "another popularity": ("popularity", "fail", {}, with_rows(EVERY), {"popularity": POPULARITY[::-1]}),
    "memoized as fresh": ("memoization", "fail", {"memoize": True}, with_rows(EVERY), {}),
    "fresh as memoized": ("memoization", "fail", {}, with_rows(EVERY), {"more": "[devices]\nmemoize = true\n"}),
    "duplicate rows": ("duplicates", "fail", {}, with_rows(np.repeat(EVERY, 2)), {}),
    "beyond the cap": ("reports per user", "fail", {}, with_rows(EVERY), {"more": "[devices]\ncap = 19\n"}),
    "two names of one device": ("duplicates", "warn", {}, with_a_copied_user, {}),
    "too few reports": ("rows", "warn", {}, with_rows(EVERY[:60]), {}),
    "too few users": ("users", "warn", {}, with_rows(EVERY[: 10 * EACH]), {}),
    "large counts": ("reports per user", "warn", {}, with_rows(EVERY), {"more": "[attack]\nobservations = [5, 90]\n"}),
    "rotating": ("reports per user", "warn", {}, with_rows(EVERY), {"more": "[devices]\nrotate_after = 7\n"}),
}


@pytest.mark.parametrize("misreading", MISREAD)
def test_each_check_fires_on_what_it_is_for(tmp_path, misreading):
    name, status, made, change, read = MISREAD[misreading]
    made = dict(made)
    reports = sent("cms", CMS | {"epsilon": made.pop("epsilon", 3.0)}, **made)
    scenario = scenario_in(tmp_path, "cms", CMS, **read)
    path = written(tmp_path, scenario, *change(reports))
    found = ps.inspect(path, scenario)
    assert status_of(found, name) == status
    # with another epsilon, reports are also flatter than the popularity
    also = ["popularity"] if misreading == "another epsilon" else []
    assert failing(found) == ([name, *also] if status == "fail" else [])
    assert next(check for check in found.checks if check.check == name).remedy
    # the attack has the same table, and its violations are the failed checks
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        attacked = ps.attack(path, scenario)
    assert attacked.inspection == found
    assert list(attacked.violations) == found.violations


def test_the_times_of_a_file_are_described(tmp_path):
    scenario = scenario_in(tmp_path, "cms", CMS)
    path = written(tmp_path, scenario, sent("cms", CMS))
    times = pl.datetime_range(pl.datetime(2026, 1, 1), pl.datetime(2026, 2, 1), "1h", eager=True)[: len(NAMES)]
    rows = pl.read_parquet(path)
    times = pl.concat([times] * (1 + rows.height // len(times)))[: rows.height].sort()
    rows.with_columns(times.alias("time")).write_parquet(path)
    check = next(check for check in ps.inspect(path, scenario).checks if check.check == "time")
    assert (check.status, check.value[:19], check.remedy) == ("pass", "2026-01-01 00:00:00", "")
    mixed = times.to_list()
    mixed[0], mixed[5], mixed[EACH + 3] = mixed[-1], None, None
    rows.with_columns(pl.Series("time", mixed)).write_parquet(path)
    check = next(check for check in ps.inspect(path, scenario).checks if check.check == "time")
    # the first row of a user is later than all its others but the one without a time
    assert check.status == "warn"
    assert f"2 rows without a time; {EACH - 2} rows earlier" in check.value
    assert "sort the rows by time" in check.remedy


def test_the_command_prints_a_table_or_json_and_exits_by_the_verdict(tmp_path):
    scenario = scenario_in(tmp_path, "cms", CMS)
    path = written(tmp_path, scenario, sent("cms", CMS))
    arguments = ("inspect", path, "--scenario", tmp_path / "mine.toml")
    good = poolscope(*arguments, cwd=tmp_path)
    assert (good.returncode, good.stderr) == (0, "")
    assert "Nothing contradicts the scenario: 10 checks, 9 passed, 1 not tested." in good.stdout
    found = json.loads(poolscope(*arguments, "--json", cwd=tmp_path).stdout)
    schema = Draft202012Validator(schema_of("inspection"))
    schema.validate(found)
    assert not schema.is_valid(found | {"format": 2})
    assert not schema.is_valid({name: value for name, value in found.items() if name != "checks"})
    assert not schema.is_valid(found | {"checks": [{"check": "rows", "status": "fine", "value": "", "remedy": ""}]})
    assert [check["check"] for check in found["checks"]] == NAMES_OF_CHECKS
    written(tmp_path, scenario, reversed_bits(sent("cms", CMS))[0])
    bad = poolscope(*arguments, cwd=tmp_path)
    assert bad.returncode == 1
    assert "The reports contradict the scenario: 10 checks, " in bad.stdout
    assert "reverse the bits of each byte" in bad.stdout
    assert (
        poolscope("inspect", tmp_path / "none.parquet", "--scenario", tmp_path / "mine.toml", cwd=tmp_path).returncode
        == 2
    )


def test_a_scenario_without_an_adversary_can_be_inspected(tmp_path):
    scenario_in(tmp_path, "cms", CMS)
    text = (tmp_path / "mine.toml").read_text()
    (tmp_path / "bare.toml").write_text(text[: text.index("[[adversary]]")])
    scenario = ps.load_scenario(tmp_path / "bare.toml")
    found = ps.inspect(written(tmp_path, scenario, sent("cms", CMS)), scenario)
    assert found.passed
    assert status_of(found, "popularity") == "skip"
    found = ps.inspect(written(tmp_path, scenario, reversed_bits(sent("cms", CMS))[0]), scenario)
    assert failing(found) == ["bit order"]


def test_a_copy_of_the_file_far_below_the_original_is_noticed(tmp_path, monkeypatch):
    """The first reports alone do not show it: each of them is there once."""
    for module in ("poolscope.reports.checks.MAX_REPORTS", "poolscope.reports.misfit.MAX_REPORTS"):
        monkeypatch.setattr(module, len(NAMES) // 2)
    scenario = scenario_in(tmp_path, "cms", CMS)
    path = written(tmp_path, scenario, *with_rows(np.tile(EVERY, 2))(sent("cms", CMS)))
    assert failing(ps.inspect(path, scenario)) == ["duplicates"]


@statistical
@pytest.mark.parametrize(("kind", "parameters"), [("cms", CMS), ("oue", {"epsilon": 2.0}), ("olh", {"epsilon": 2.0})])
def test_false_alarms_on_correct_files_are_as_rare_as_stated(tmp_path, monkeypatch, kind, parameters):
    """At a rate of 10% for each check, where one alarm of 10,000 would never be seen."""
    rate, files = 0.1, 40
    from poolscope.reports import checks

    monkeypatch.setattr(inspection, "ERROR", rate)
    own = checks.ReportChecks
    monkeypatch.setattr(inspection, "ReportChecks", lambda device, assumed: own(device, assumed, rate))
    alarms = dict.fromkeys(NAMES_OF_CHECKS, 0)
    for number in range(files):
        scenario = scenario_in(tmp_path, kind, parameters)
        path = written(tmp_path, scenario, sent(kind, parameters, seed=SEED + number))
        for check in ps.inspect(path, scenario).checks:
            alarms[check.check] += check.status in ("warn", "fail")
    assert max(alarms.values()) <= stats.binom.isf(1e-4, files, rate), alarms


def test_times_are_compared_across_batches(tmp_path):
    """Two files are two batches: the second report of ann is earlier than her first."""
    pl.DataFrame({"user": ["ann", "bob"], "time": [5, 1]}).write_parquet(tmp_path / "1.parquet")
    pl.DataFrame({"user": ["ann", "bob", "cid"], "time": [3, 2, 0]}).write_parquet(tmp_path / "2.parquet")
    found = inspection.time_range(open_table(tmp_path))
    assert (found.first, found.last, found.missing, found.disordered) == (0, 5, 0, 1)


@pytest.mark.parametrize(("most", "status"), [(20, "pass"), (21, "fail")])
def test_a_user_may_reach_the_cap(most, status):
    scenario = ps.load_scenario("apple-emojis").replace({"devices.cap": 20, "attack.observations": [10]})
    assert inspection._reports_per_user(scenario, np.array([10, most])).status == status


@pytest.mark.parametrize(("status", "passed"), [("warn", True), ("skip", True), ("fail", False)])
def test_a_warning_is_no_contradiction(status, passed):
    check = Check(check="rows", status=status, value="3 reports")
    found = inspection.Inspection(file="r.parquet", scenario="mine", version="0", reports=3, users=1, checks=(check,))
    assert found.passed is passed
    assert bool(found.violations) is not passed
