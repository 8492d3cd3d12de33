"""Reports that are read with another's parameters are noticed, and others are not."""

import re
import warnings
from dataclasses import replace

import numpy as np
import polars as pl
import pytest
from cases.report_files import WEAK, scenario_of
from cases.selection import mostly, statistical
from cases.synthetic import SEED
from scipy import stats

from poolscope.core.randomness import user_keys
from poolscope.mechanisms import Channel, adapt, device_of, make
from poolscope.mechanisms import reports_of as device_reports
from poolscope.mechanisms.protocols import ReportColumn
from poolscope.reports.files import report_frame
from poolscope.reports.misfit import FirstReports, MisfitCheck
from poolscope.scenario.build import build_mechanism
from poolscope.workflows.attack.attack import attack
from poolscope.workflows.estimate import estimate
from poolscope.workflows.obfuscate import obfuscate

UNIVERSE = 40
KINDS = {
    "cms": {"epsilon": 3.0, "m": 64, "hashes": 256},
    "hcms": {"epsilon": 3.0, "m": 64, "hashes": 256},
    "grr": {"epsilon": 3.0},
    "sue": {"epsilon": 3.0},
    "oue": {"epsilon": 3.0},
    "she": {"epsilon": 3.0},
    "the": {"epsilon": 3.0},
    "ss": {"epsilon": 3.0},
    "olh": {"epsilon": 3.0},
    "blh": {"epsilon": 3.0},
    "hr": {"epsilon": 3.0},
    "rappor": {"epsilon": 3.0, "m": 16, "cohorts": 8},
    "spotme": {"epsilon": 3.0},
    "identity": {},
}


CHANNELS = {
    "channel": Channel(universe=UNIVERSE, matrix=np.random.default_rng(1).dirichlet(np.full(60, 0.5), UNIVERSE)),
    "blurred": Channel(universe=UNIVERSE, matrix=np.random.default_rng(2).dirichlet(np.full(25, 1.0), UNIVERSE)),
    "few": Channel(universe=4, matrix=np.random.default_rng(3).dirichlet(np.full(300, 5.0), 4)),
}


def mechanism_of(kind):
    return CHANNELS[kind] if kind in CHANNELS else make(kind, UNIVERSE, KINDS[kind])


def reports_of(mechanism, count, seed=SEED):
    """Of objects as few as a popularity can have: what is popular must not matter."""
    rng = np.random.default_rng(seed)
    popularity = rng.dirichlet(np.full(mechanism.universe, 0.2))
    objects = rng.choice(mechanism.universe, size=count, p=popularity)
    return mechanism.report(objects, user_keys(seed, np.arange(count)))


def looked(mechanism, reports, **options):
    misfit = MisfitCheck(mechanism, **options)
    half = len(next(iter(reports.values()))) // 2
    misfit.add({name: column[:half] for name, column in reports.items()})
    misfit.add({name: column[half:] for name, column in reports.items()})
    return misfit.violation()


@pytest.mark.parametrize("kind", mostly(statistical, [*KINDS, *CHANNELS], "cms", "grr", "channel"))
def test_false_alarms_are_as_rare_as_stated(kind):
    mechanism, error, files = mechanism_of(kind), 0.2, 60
    alarms = [looked(mechanism, reports_of(mechanism, 400, SEED + i), false_alarm_rate=error) for i in range(files)]
    assert sum(map(bool, alarms)) <= stats.binom.isf(1e-4, files, error), alarms


def test_a_rare_report_that_supports_all_objects_raises_no_alarm():
    """One in 256 reports of Hadamard response does; a hundred reports that lack it spread too little."""
    mechanism, error, files = make("hr", 150, {"epsilon": 1.0}), 0.01, 60
    alarms = [looked(mechanism, reports_of(mechanism, 100, SEED + i), false_alarm_rate=error) for i in range(files)]
    assert sum(map(bool, alarms)) <= stats.binom.isf(1e-4, files, error), alarms


@pytest.mark.parametrize("kind", [*KINDS, *CHANNELS])
def test_reports_that_fit_are_not_noticed(kind):
    mechanism = mechanism_of(kind)
    assert looked(mechanism, reports_of(mechanism, 20_000)) is None


@pytest.mark.default_cases("4")
@pytest.mark.parametrize("functions", [4, 65536])
def test_few_reports_on_few_or_many_functions_are_not_noticed(functions):
    mechanism = make("cms", UNIVERSE, KINDS["cms"] | {"hashes": functions})
    assert not any(looked(mechanism, reports_of(mechanism, 300, SEED + i)) for i in range(50))


@pytest.mark.parametrize(("kind", "parameters"), [("cms", {"m": 64}), ("hcms", {"m": 64}), ("rappor", {"m": 16})])
def test_collisions_under_few_functions_are_not_noticed(kind, parameters):
    """Four functions: what objects share by them does not fade with more reports, and is no misfit."""
    functions = {"cohorts": 4} if kind == "rappor" else {"hashes": 4}
    for seed in range(10):
        mechanism = make(kind, UNIVERSE, {"epsilon": 3.0, "seed": seed} | parameters | functions)
        assert looked(mechanism, reports_of(mechanism, 20_000, SEED + seed)) is None, seed


def test_the_first_report_of_a_user_is_one_in_all_batches():
    """Also where the user was met in a batch before the last."""
    firsts, found = FirstReports(), []
    for users in ([3, 1, 3], [2, 1, 2], [1, 3, 4, 2], [3, 4, 5]):
        users = np.array(users, dtype=np.uint64)
        found.append(firsts.of(users, {"value": 10 * users + np.arange(len(users))})["value"].tolist())
    assert found == [[30, 11], [20], [42], [52]]


@pytest.mark.parametrize("kind", ["cms", "sue", "oue"])
@pytest.mark.parametrize("epsilon", [2.0, 4.0])
def test_another_epsilon_shows_in_the_set_bits(kind, epsilon):
    mechanism = make(kind, UNIVERSE, KINDS[kind])
    found = looked(replace(mechanism, epsilon=epsilon), reports_of(mechanism, 20_000))
    assert re.fullmatch(r".*% of the bits are set, where .*%: likely another epsilon or number of bits", found)


@pytest.mark.parametrize("kind", ["hcms", "olh"])
@pytest.mark.parametrize("epsilon", [1.0, 4.0])
def test_another_epsilon_shows_in_the_sum_of_counts(kind, epsilon):
    parameters = KINDS[kind] | {"epsilon": 2.0} | ({"g": 8} if kind == "olh" else {})
    mechanism = make(kind, UNIVERSE, parameters)
    found = looked(replace(mechanism, epsilon=epsilon), reports_of(mechanism, 60_000))
    assert re.search(r"sum to \d+% of the reports: likely another epsilon, or objects", found)


def test_a_larger_epsilon_shows_in_rare_objects():
    mechanism = make("grr", UNIVERSE, {"epsilon": 4.0})
    found = looked(make("grr", UNIVERSE, {"epsilon": 3.0}), reports_of(mechanism, 20_000))
    assert found.endswith("fewer supporting reports than noise alone gives: likely a larger epsilon")


def test_another_order_of_bits_is_noticed():
    mechanism = make("cms", UNIVERSE, KINDS["cms"])
    reports = reports_of(mechanism, 20_000)
    turned = np.packbits(np.unpackbits(reports["bits"], axis=1, bitorder="little"), axis=1)
    found = looked(mechanism, reports | {"bits": turned})
    assert re.search(r"sum to \d+% of the reports: likely another hash table, seed, order of bits", found)


@pytest.mark.parametrize("kind", ["cms", "hcms", "olh"])
def test_other_hash_functions_are_noticed(kind):
    mechanism = make(kind, UNIVERSE, KINDS[kind])
    other = {"hash": "xxhash32"} if kind == "olh" else {"seed": 7}
    found = looked(make(kind, UNIVERSE, KINDS[kind] | other), reports_of(mechanism, 60_000))
    assert re.search(r"sum to \d+% of the reports: likely another hash table", found)


def test_reports_of_another_channel_are_noticed():
    channel, other = CHANNELS["channel"], CHANNELS["blurred"]
    reports = reports_of(channel, 4000)
    turned = {"report": 59 - reports["report"]}
    assert "likely another channel, or another numbering of the reports" in looked(channel, turned)
    assert "another channel" in looked(channel, reports_of(other, 4000))
    never = Channel(universe=2, matrix=np.array([[0.5, 0.5, 0.0], [0.2, 0.8, 0.0]]))
    assert "another channel" in looked(never, {"report": np.array([0, 1, 2, 1])})


def test_reports_of_a_mechanism_of_ones_own_are_looked_at_where_they_are_few():
    class Own:
        distribution = CHANNELS["few"].matrix
        report_columns = {"report": ReportColumn("integer", 300)}  # noqa: RUF012

        def obfuscate(self, objects, rng):
            return (self.distribution.cumsum(axis=1)[objects, :-1] <= rng.random((len(objects), 1))).sum(axis=1)

        def log_likelihood(self, reports):
            return np.log(self.distribution[:, reports]).T

    reports = reports_of(CHANNELS["few"], 3000)
    assert looked(adapt(Own(), 4), reports) is None
    assert "another channel" in looked(adapt(Own(), 4), {"report": 299 - reports["report"]})


def test_functions_that_are_not_used_alike_are_noticed():
    mechanism = make("cms", UNIVERSE, KINDS["cms"])
    found = looked(make("cms", UNIVERSE, KINDS["cms"] | {"hashes": 512}), reports_of(mechanism, 5000))
    assert found.startswith("hash functions are not equally frequent (256 of 512 in 5,000 reports): likely")


def test_few_reports_do_not_tell_their_own_spread():
    mechanism = make("cms", UNIVERSE, KINDS["cms"])
    assert not any(looked(mechanism, reports_of(mechanism, count, SEED + count)) for count in range(2, 120))
    found = looked(replace(mechanism, epsilon=1.0), reports_of(mechanism, 100))
    assert found.endswith("likely another epsilon or number of bits")


def test_both_commands_say_it_in_one_line(tmp_path):
    right = scenario_of(tmp_path, adversaries=WEAK)
    other = scenario_of(
        tmp_path, adversaries=WEAK, mechanism="kind = 'cms'\nepsilon = 2\nm = 32\nhashes = 64\n", name="other.toml"
    )
    universe, mechanism = right.universe(), build_mechanism(right, right.universe())
    users = pl.Series(np.repeat(np.arange(400), 10))
    frame = report_frame(users, reports_of(mechanism, 4000), mechanism.report_columns, universe, text=False)
    frame.write_parquet(path := tmp_path / "reports.parquet")
    for command in (attack, estimate):
        with pytest.warns(UserWarning, match=r"reports.parquet: .*% of the bits are set, where .*another epsilon"):
            command(path, other)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for command in (attack, estimate):
            command(path, right)


KEPT = {
    "cms": KINDS["cms"],
    "grr": KINDS["grr"],
    "rappor": KINDS["rappor"],
    "l-grr": {"epsilon": 3.0},
    "l-osue": {"epsilon": 3.0},
    "loloha": {"epsilon": 3.0},
    "dbitflip": {"epsilon": 3.0, "d": 5},
}


def memoized_reports(kind, users, seed, each=40):
    """Of users who pick two objects again and again: users, and what their devices send."""
    device = device_of(make(kind, UNIVERSE, KEPT[kind]), memoize=True)
    traces = np.random.default_rng(seed).integers(UNIVERSE, size=(users, 2)).repeat(each // 2, axis=1)
    names = np.repeat(np.arange(users, dtype=np.uint64), each)
    return device.mechanism, names, device_reports(device, traces, user_keys(seed, np.arange(users)))


@pytest.mark.default_cases("grr")
@pytest.mark.parametrize("kind", KEPT)
def test_kept_answers_raise_no_alarm(kind):
    """The first report of each user is drawn anew. Taken all together, as if each were, many files would."""
    error, files, alarms, naive = 0.2, 40, [], []
    for i in range(files):
        mechanism, names, reports = memoized_reports(kind, 300, SEED + i)
        firsts, misfit = FirstReports(), MisfitCheck(mechanism, false_alarm_rate=error)
        for rows in (slice(0, 5000), slice(5000, None)):
            misfit.add(firsts.of(names[rows], {name: column[rows] for name, column in reports.items()}))
        assert misfit.reports == 300
        alarms.append(misfit.violation())
        naive.append(looked(mechanism, reports, false_alarm_rate=error))
    most = stats.binom.isf(1e-4, files, error)
    assert sum(map(bool, alarms)) <= most, alarms
    if kind in ("cms", "grr"):
        assert sum(map(bool, naive)) > most, "the negative control"


def test_kept_answers_of_another_epsilon_are_noticed(tmp_path):
    naive = f"{WEAK}knows_memoization = false\n"
    devices = "[devices]\nmemoize = true\n"
    right, other = (
        scenario_of(
            tmp_path,
            adversaries=naive,
            mechanism=f"kind = 'cms'\nepsilon = {epsilon}\nm = 32\nhashes = 64\n{devices}",
            name=f"{epsilon}.toml",
            attack="[attack]\nobservations = [1]\n",
        )
        for epsilon in (4, 2)
    )
    traces = pl.DataFrame({"user": np.arange(3000).repeat(2), "object": np.arange(6000) // 2 % 30})
    traces.write_parquet(tmp_path / "traces.parquet")
    obfuscate(tmp_path / "traces.parquet", right, path := tmp_path / "reports.parquet", SEED)
    for command in (attack, estimate):
        with pytest.warns(UserWarning, match=r"reports.parquet: .*% of the bits are set, where .*another epsilon"):
            command(path, other)
    # pseudonyms of one device share its answers, and nobody knows which these are
    hidden = scenario_of(
        tmp_path,
        adversaries=naive,
        mechanism=f"kind = 'cms'\nepsilon = 2\nm = 32\nhashes = 64\n{devices}rotate_after = 1\n",
        name="hidden.toml",
    )
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for command in (attack, estimate):
            command(path, right)
        estimate(path, hidden)
