"""Reports that a scenario misreads: `attack` says so on the terminal, in its record and in its HTML report."""

import re
import warnings

import numpy as np
import polars as pl
import pytest
from cases.report_files import command, write_reports
from cases.synthetic import SEED

from poolscope.core.randomness import user_keys
from poolscope.mechanisms import device_of, make, reports_of
from poolscope.population.behavior import Behavior, draw_traces, draw_users
from poolscope.population.popularity import zipf
from poolscope.population.universe import Universe
from poolscope.scenario.build import build_mechanism
from poolscope.scenario.scenario import load_scenario
from poolscope.workflows.attack.attack import attack
from poolscope.workflows.attack.one_user import attack_user
from poolscope.workflows.estimate import estimate

SIZE, USERS, EACH = 60, 500, 20
POOLS = ["a", "b", "c"]
UNIVERSE = Universe.named([str(z) for z in range(SIZE)], [*np.repeat(POOLS, 10).tolist(), *[""] * 30])
POPULARITY = np.random.default_rng(SEED).permutation(1.0 / np.arange(1, SIZE + 1))
NAMES = np.repeat(np.arange(USERS), EACH)
PEOPLE = draw_users(UNIVERSE, Behavior(), user_keys(SEED, np.arange(USERS)))
TRACES = draw_traces(UNIVERSE, POPULARITY, PEOPLE, EACH)
RNG = np.random.default_rng(SEED)
TABLE = RNG.integers(32, size=(64, SIZE))


def scenario_of(folder, mechanism, *, popularity=POPULARITY, devices="", pools=None, adversary=""):
    """An adversary who is given the popularity within pools."""
    names = pl.Series([*np.repeat(POOLS, 10).tolist(), *[""] * 30]) if pools is None else pools
    objects = {"object": list(UNIVERSE.objects), "pool": names, "popularity": popularity}
    pl.DataFrame(objects).write_csv(folder / "objects.csv")
    text = f'[universe]\nobjects = "objects.csv"\n[mechanism]\n{mechanism}\n{devices}\n'
    path = folder / "scenario.toml"
    path.write_text(f'{text}[[adversary]]\nname = "strong"\npopularity = "given"\n{adversary}')
    return load_scenario(path)


def written(folder, scenario, reports, names=NAMES):
    path = folder / "reports.parquet"
    path.unlink(missing_ok=True)
    mechanism = build_mechanism(scenario, scenario.universe())
    write_reports(path, pl.Series(names), reports, mechanism, scenario.universe())
    return path


def said(function, *arguments, **options):
    """The warnings of a call."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        function(*arguments, **options)
    return [str(warning.message) for warning in caught]


def sent(kind, *, traces=TRACES, size=SIZE, memoize=None, **parameters):
    device = device_of(make(kind, size, parameters), memoize=memoize)
    return reports_of(device, traces, user_keys(SEED, np.arange(len(traces))))


def reversed_within_pools():
    turned = POPULARITY.copy()
    for pool in range(-1, 3):
        own = np.flatnonzero(UNIVERSE.pool_of == pool)
        turned[own] = turned[own][::-1]
    return turned


def fake_data():
    """One column of RS+FD with three attributes: a third is sanitized with an amplified epsilon, the rest is fake."""
    rng = np.random.default_rng(SEED)
    values = np.array(sent("grr", epsilon=np.log(3 * np.expm1(3.0) + 1))["value"])
    fake = rng.random(len(values)) >= 1 / 3
    values[fake] = rng.integers(SIZE, size=fake.sum())
    return {"value": values}


def too_truthful():
    rng, picks = np.random.default_rng(SEED), TRACES.ravel()
    true = rng.random(picks.size) < 3 * make("grr", SIZE, {"epsilon": 2.0}).p_star
    return {"value": np.where(true, picks, (picks + rng.integers(1, SIZE, size=picks.size)) % SIZE)}


CMS = 'kind = "cms"\nepsilon = 3\nm = 32\nhash_table = "table.npy"'
OLH, OUE, GRR = ('kind = "{}"\nepsilon = {}'.format(*which) for which in (("olh", 2), ("oue", 2), ("grr", 3)))
HCMS = 'kind = "hcms"\nepsilon = 4\nm = 64\nhashes = 256'
ORDER, FLATTER, STEEPER = "another order of objects", "a smaller epsilon, fake values", "truthful too often"

#: The mechanism that reports are read with, the reports, what is odd in how they are read, and the likely cause.
MISREAD = {
    "hash table columns reversed": (
        CMS,
        lambda: sent("cms", epsilon=3.0, m=32, hash_table=TABLE),
        {"table": TABLE[:, ::-1]},
        ORDER,
    ),
    "objects numbered from 1": (OLH, lambda: sent("olh", size=SIZE + 1, traces=TRACES + 1, epsilon=2.0), {}, ORDER),
    "popularity reversed": (OUE, lambda: sent("oue", epsilon=2.0), {"popularity": reversed_within_pools()}, ORDER),
    "RS+FD read as GRR": (GRR, fake_data, {}, FLATTER),
    "truthful three times too often": ('kind = "grr"\nepsilon = 2', too_truthful, {}, STEEPER),
}
READ = {
    "cms": (CMS, lambda: sent("cms", epsilon=3.0, m=32, hash_table=TABLE)),
    "olh": (OLH, lambda: sent("olh", epsilon=2.0)),
    "oue": (OUE, lambda: sent("oue", epsilon=2.0)),
    "grr": (GRR, lambda: sent("grr", epsilon=3.0)),
    "hcms": (HCMS, lambda: sent("hcms", epsilon=4.0, m=64, hashes=256)),
}


@pytest.mark.default_cases("hash table columns reversed", "RS+FD read as GRR", "truthful*")
@pytest.mark.parametrize("misreading", MISREAD)
def test_another_popularity_than_the_given_one_is_noticed(tmp_path, misreading):
    mechanism, reports, odd, cause = MISREAD[misreading]
    np.save(tmp_path / "table.npy", odd.get("table", TABLE))
    scenario = scenario_of(tmp_path, mechanism, popularity=odd.get("popularity", POPULARITY))
    lines = said(attack, written(tmp_path, scenario, reports()), scenario)
    assert len(lines) == 1
    pattern = (
        r".*reports.parquet: within .* do not follow the popularity of adversary strong \(they fit its power .*\): "
    )
    assert re.match(pattern, lines[0])
    assert cause in lines[0]


def test_another_epsilon_is_noticed_among_many_objects(tmp_path):
    """Of so many objects the sum of all counts is too noisy to show it."""
    size, users, mechanism = 600, 500, HCMS.replace("64", "1024")
    universe = Universe.sized(size, {"a": 100, "b": 100, "c": 100})
    people = draw_users(universe, Behavior(), user_keys(SEED, np.arange(users)))
    traces = draw_traces(universe, zipf(universe, 2.0), people, EACH)
    for epsilon, found in ((1.5, True), (4.0, False)):
        path = tmp_path / "scenario.toml"
        path.write_text(
            f"[universe]\nsize = {size}\npools = {{ a = 100, b = 100, c = 100 }}\n[mechanism]\n{mechanism}\n"
            '[popularity]\nkind = "zipf"\nexponent = 2\n[[adversary]]\nname = "strong"\npopularity = "true"\n'
        )
        scenario = load_scenario(path)
        reports = sent("hcms", size=size, traces=traces, epsilon=epsilon, m=1024, hashes=256)
        lines = said(attack, written(tmp_path, scenario, reports, np.repeat(np.arange(users), EACH)), scenario)
        assert len(lines) == found
        assert not found or FLATTER in lines[0]


@pytest.mark.default_cases("cms")
@pytest.mark.parametrize("kind", READ)
def test_what_is_read_as_it_was_sent_is_not_noticed(tmp_path, kind):
    mechanism, reports = READ[kind]
    np.save(tmp_path / "table.npy", TABLE)
    scenario = scenario_of(tmp_path, mechanism)
    path = written(tmp_path, scenario, reports())
    assert said(attack, path, scenario) == said(estimate, path, scenario) == []


MEMOIZED = {
    "sue": {"epsilon": 1},
    "grr": {"epsilon": 2},
    "olh": {"epsilon": 2},
    "dbitflip": {"epsilon": 3, "d": 4},
}


def memory_scenario(folder, kind, memoize):
    """The adversary takes every report by itself: to group them takes long."""
    parameters = "\n".join(f"{name} = {value}" for name, value in MEMOIZED[kind].items())
    devices = f"[devices]\nmemoize = {str(memoize).lower()}"
    naive = "knows_memoization = false\n" if memoize else ""
    return scenario_of(folder, f'kind = "{kind}"\n{parameters}', devices=devices, adversary=naive)


@pytest.mark.default_cases("grr")
@pytest.mark.parametrize("kind", MEMOIZED)
def test_memoized_reports_read_as_fresh_are_noticed(tmp_path, kind):
    right, wrong = (memory_scenario(tmp_path, kind, memoize) for memoize in (True, False))
    path = written(tmp_path, right, sent(kind, memoize=True, **MEMOIZED[kind]))
    for function in (attack, estimate):
        (line,) = said(function, path, wrong)
        assert "reports.parquet: reports repeat: " in line
        assert "set memoize = true in [devices], or remove duplicate rows" in line
        assert said(function, path, right) == []


@pytest.mark.default_cases("sue")
@pytest.mark.parametrize("kind", ["sue", "grr", "olh"])
def test_fresh_reports_read_as_memoized_are_noticed(tmp_path, kind):
    right, wrong = (memory_scenario(tmp_path, kind, memoize) for memoize in (False, True))
    path = written(tmp_path, right, sent(kind, memoize=False, **MEMOIZED[kind]))
    # without a given popularity few values repeat anyway
    for function in (attack, estimate)[: 1 + (kind != "grr")]:
        (line,) = said(function, path, wrong)
        assert re.search(r"reports hardly repeat: .* set memoize = false in \[devices\]", line)
    assert said(attack, path, right) == []


@pytest.mark.parametrize("consecutive", [True, False])
def test_rows_that_were_delivered_twice_are_called_so(tmp_path, consecutive):
    scenario = scenario_of(tmp_path, 'kind = "cms"\nepsilon = 3\nm = 32\nhashes = 64')
    reports, rows = sent("cms", epsilon=3.0, m=32, hashes=64), np.arange(len(NAMES))
    rows = np.repeat(rows, 2) if consecutive else np.tile(rows, 2)
    twice = {name: column[rows] for name, column in reports.items()}
    (line,) = said(attack, written(tmp_path, scenario, twice, NAMES[rows]), scenario)
    place = ", in consecutive rows" if consecutive else ""
    assert line.endswith(f"each report occurs 2 times{place}: rows were delivered more than once; remove the copies")


def test_a_tenth_of_the_rows_delivered_twice_is_called_so(tmp_path):
    scenario = scenario_of(tmp_path, OUE)
    rows = np.sort(np.concatenate([np.arange(len(NAMES)), np.arange(0, len(NAMES), 10)]))
    some = {name: column[rows] for name, column in sent("oue", epsilon=2.0).items()}
    (line,) = said(attack, written(tmp_path, scenario, some, NAMES[rows]), scenario)
    assert "reports repeat: 9.1% of them equal an earlier one of their user, in consecutive rows" in line
    assert "likely duplicate rows; remove them" in line


@pytest.fixture(scope="module")
def misread(tmp_path_factory):
    """A folder with a scenario that reads its reports wrongly, a correct one, and the truth."""
    folder = tmp_path_factory.mktemp("misread")
    np.save(folder / "table.npy", TABLE[:, ::-1])
    scenario = scenario_of(folder, CMS)
    written(folder, scenario, sent("cms", epsilon=3.0, m=32, hash_table=TABLE))
    text = (folder / "scenario.toml").read_text()
    (folder / "right.toml").write_text(text.replace("table.npy", "right.npy"))
    np.save(folder / "right.npy", TABLE)
    truth = {"user": np.arange(USERS), "pool": [POOLS[i] for i in PEOPLE.iota]}
    pl.DataFrame(truth).write_parquet(folder / "truth.parquet")
    return folder


def attacked(folder, scenario, *more):
    files = ("--out", folder / "out.csv", "--html", folder / "out.html", "--ground-truth", folder / "truth.parquet")
    code = command("attack", folder / "reports.parquet", "--scenario", folder / scenario, *files, "--overwrite", *more)
    return code, (folder / "out.html").read_text()


def test_what_contradicts_is_in_the_record_the_page_and_the_exit_code(misread, capsys):
    code, html = attacked(misread, "scenario.toml")
    shown = capsys.readouterr()
    assert code == 0
    assert "FAIL: 2 consistency checks failed, see the warnings." in shown.out
    assert shown.err.count("\n") == 2
    assert "adversary strong is not calibrated: expected calibration error 0." in shown.err
    banner = html[html.index('<div class="alert" role="alert">') : html.index("<header>")]
    assert "Consistency checks failed" in banner
    assert "do not follow the popularity of adversary strong" in banner
    assert "is not calibrated" in banner
    assert "Most confident guesses" not in html
    assert attacked(misread, "scenario.toml", "--strict")[0] == 1
    assert (misread / "out.csv").exists()
    with pytest.warns(UserWarning, match="do not follow"):
        found = attack(misread / "reports.parquet", load_scenario(misread / "scenario.toml"))
    assert not found.passed
    assert [("do not follow" in line) for line in found.violations] == [True]
    with pytest.warns(UserWarning, match="do not follow"):
        story = attack_user(misread / "reports.parquet", load_scenario(misread / "scenario.toml"), "3")
    assert list(story.violations) == list(found.violations)


def test_a_file_that_fits_passes(misread, capsys):
    code, html = attacked(misread, "right.toml", "--strict")
    shown = capsys.readouterr()
    assert (code, shown.err) == (0, "")
    assert "FAIL" not in shown.out
    assert 'role="alert"' not in html
    assert "<code>passed</code>" in html
    assert "Most confident guesses" in html
    out = misread / "found.parquet"
    options = {"out": out, "ground_truth": misread / "truth.parquet"}
    found = attack(misread / "reports.parquet", load_scenario(misread / "right.toml"), **options)
    assert (found.passed, list(found.violations)) == (True, [])
    assert [judgment.calibrated for judgment in found.evaluation] == [True]


def test_a_pool_of_the_truth_that_does_not_exist_is_refused(misread, tmp_path, capsys):
    truth = tmp_path / "truth.csv"
    truth.write_text("user,pool\n3,a\n4,A\n")
    out = tmp_path / "out.csv"
    scenario = misread / "right.toml"
    arguments = ("attack", misread / "reports.parquet", "--scenario", scenario, "--out", out, "--ground-truth", truth)
    assert command(*arguments) == 2
    rule = "row 2: pool must be one of the scenario's, or of --pools, got 'A'; did you mean 'a'?"
    assert capsys.readouterr().err == f"poolscope: {truth}: {rule}\n"
    assert list(tmp_path.iterdir()) == [truth]


def test_pools_that_look_alike_are_noticed(tmp_path):
    scenario = scenario_of(tmp_path, GRR, pools=[*["Health"] * 10, *["health"] * 10, *["he alth"] * 10, *[""] * 30])
    path = written(tmp_path, scenario, sent("grr", epsilon=3.0))
    again = load_scenario(tmp_path / "scenario.toml")
    lines = said(attack, path, again)
    assert len(lines) == 2
    assert all("objects.csv: row" in line and "differ only in case or white space" in line for line in lines)
    assert "row 11: pool 'health' and pool 'Health' differ only in case" in lines[0]
