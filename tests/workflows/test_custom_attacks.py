"""Attacks of one's own in audit, compare and attack: by name or class, never by a scenario or a folder."""

import json

import numpy as np
import polars as pl
import pytest
from cases.command_line import SMALL, poolscope
from cases.synthetic import SEED
from polars.testing import assert_frame_equal

import poolscope as ps
from poolscope.core.errors import InputError
from poolscope.inference.attacks import ATTACKS
from poolscope.scenario.attacks import attack_name, make_attack
from poolscope.scenario.scenario import parse
from poolscope.workflows.rerun import rerun_audit, rerun_comparison

CODE = '''
import numpy as np

class Even:
    """Knows nothing."""

    name = "even"

    def posteriors(self, reports, lengths, observations, context):
        k = len(context.hypotheses)
        return np.full((len(lengths), len(observations), k), 1 / k)

class Needy(Even):
    def __init__(self, appetite):
        pass

class Nothing:
    pass
'''
NAMES: dict = {"__name__": "mine"}
exec(CODE, NAMES)
Even, Needy = NAMES["Even"], NAMES["Needy"]
SCENARIO = parse(SMALL, name="small").replace({"attack.estimates": 2})


def command(text, folder):
    words = text.split()
    return poolscope(*words, cwd=folder)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    out = tmp_path_factory.mktemp("attacks")
    (out / "small.toml").write_text(SMALL)
    (out / "evenmodule.py").write_text(CODE)
    return out


def test_audit_plays_attacks_beside_the_adversaries(folder):
    done = command("audit small.toml --users 120 --attack averaging,evenmodule:Even --seed 1 --out run", folder)
    assert done.returncode == 0, done.stderr
    summary = json.loads((folder / "run" / "summary.json").read_text())
    found = {(row["adversary"], row["n"]): row for row in summary["results"]}
    assert {name for name, _ in found} == {"weak", "strong", "averaging", "even", "non-private"}
    assert found["even", 10]["precision"] < found["strong", 10]["precision"]
    assert {"auc_pn_low", "auc_pn_high", "ece"} <= found["averaging", 10].keys()
    assert summary["adversaries"]["averaging"].endswith("scores calibrated on held-out users")
    assert summary["adversaries"]["even"].startswith("custom attack Even, popularity estimated")
    html = (folder / "run" / "report.html").read_text()
    assert "averaging" in html
    assert "scores calibrated on held-out users" in html
    assert json.loads((folder / "run" / "manifest.json").read_text())["attacks"] == ["averaging", "evenmodule:Even"]
    with pytest.raises(InputError, match="must have built-in mechanisms and attacks alone, got 'evenmodule:Even'"):
        rerun_audit(folder / "run", None, ps.Local(), ps.Progress())


def test_the_strong_adversary_is_the_same_with_and_without_further_attacks(tmp_path):
    """And a run resumes with the same attacks alone."""
    given = {"users": 30, "seed": 1, "html": False}
    plain = ps.audit(SCENARIO, tmp_path / "plain", **given)
    more = ps.audit(SCENARIO, tmp_path / "more", attacks=["bayesian", Even()], **given)
    same = [record for record in more.results if record.adversary in plain.adversaries]
    assert same == list(plain.results)
    again = ps.audit(SCENARIO, tmp_path / "more", attacks=["bayesian", Even], resume=True, **given)
    assert list(again.results) == list(more.results)
    with pytest.raises(InputError, match="the list of attacks differs"):
        ps.audit(SCENARIO, tmp_path / "more", attacks=["bayesian"], resume=True, **given)


def test_a_run_of_built_in_attacks_is_played_again(tmp_path):
    ps.audit(SCENARIO, tmp_path / "run", users=30, seed=1, html=False, attacks=["averaging"])
    assert rerun_audit(tmp_path / "run", None, ps.Local(), ps.Progress()).agrees


def test_compare_has_a_record_for_each_attack(tmp_path):
    done = ps.compare(
        SCENARIO, ["grr"], [2.0], users=60, estimate_from=2000, attacks=["nearest-profile", Even], out=tmp_path / "c"
    )
    assert [record.adversary for record in done.results] == ["weak", "strong", "nearest-profile", "even"]
    assert done.attacks == ("nearest-profile", "mine:Even")
    with pytest.raises(InputError, match="attacks alone, got 'mine:Even'"):
        rerun_comparison(tmp_path / "c", None, ps.Local(), ps.Progress())


# Files


@pytest.fixture(scope="module")
def reports(folder):
    rng = np.random.default_rng(SEED)
    rows = [f"user{u},{z}" for u in range(40) for z in rng.integers(30, size=rng.integers(1, 15))]
    (folder / "traces.csv").write_text("user,object\n" + "\n".join(rows))
    ps.obfuscate(folder / "traces.csv", SCENARIO, folder / "reports.parquet", seed=1)
    return folder / "reports.parquet"


def test_attack_on_a_file_has_the_posteriors_of_the_built_in_attack(reports, tmp_path):
    out = tmp_path / "posteriors.parquet"
    found = ps.attack(reports, SCENARIO, out=out, attacks=["bayesian", "averaging", Even()])
    assert [row.adversary for row in found.results[::2]] == ["weak", "strong", "bayesian", "averaging", "even"]
    table = pl.read_parquet(out)
    strong, own = (table.filter(table["adversary"] == name) for name in ("strong", "bayesian"))
    columns = ["user", "n", "guess", "confidence", "posterior.a", "posterior.b", "posterior.c"]
    assert_frame_equal(strong.select(columns), own.select(columns), check_exact=False, abs_tol=1e-9)
    assert (table.filter(table["adversary"] == "even")["posterior.a"] == 1 / 3).all()


@pytest.mark.default_cases("Local(threads=3)")
@pytest.mark.parametrize("engine", [ps.Local(threads=1), ps.Local(threads=3)], ids=str)
def test_partitions_and_threads_change_no_bit(reports, engine, tmp_path, monkeypatch):
    first, second = tmp_path / "first.parquet", tmp_path / "second.parquet"
    attacks = ["averaging", "changing", "forgetting"]
    ps.attack(reports, SCENARIO, out=first, attacks=attacks)
    monkeypatch.setattr("poolscope.workflows.attack.attack.PARTITION_SHARE", 1e-6)
    ps.attack(reports, SCENARIO, out=second, attacks=attacks, engine=engine)
    assert_frame_equal(pl.read_parquet(first), pl.read_parquet(second))


def test_memoized_reports_of_a_file_are_attacked_too(folder, tmp_path):
    scenario = SCENARIO.replace({"devices": {"memoize": True}, "attack": {"observations": [4]}})
    rows = "".join(f"u{u},{z}\n" for u in range(3) for z in (1, 1, 2, 7))
    (tmp_path / "traces.csv").write_text("user,object\n" + rows)
    ps.obfuscate(tmp_path / "traces.csv", scenario, tmp_path / "reports.parquet", seed=1)
    ps.attack(tmp_path / "reports.parquet", scenario, out=tmp_path / "p.parquet", attacks=["bayesian"])
    table = pl.read_parquet(tmp_path / "p.parquet").sort("user")
    strong, own = (table.filter(table["adversary"] == name)["confidence"] for name in ("strong", "bayesian"))
    np.testing.assert_allclose(strong, own, atol=1e-9)


def test_the_command_attacks_files(reports, folder):
    done = command("attack reports.parquet --scenario small.toml --attack forgetting --out p.csv", folder)
    assert done.returncode == 0, done.stderr
    assert "forgetting" in (folder / "p.csv").read_text()
    alone = command("attack reports.parquet --scenario small.toml --attack forgetting --user user1", folder)
    assert alone.returncode == 2
    assert "must stand alone" in alone.stderr


# What is refused


@pytest.mark.parametrize(
    ("given", "rule"),
    [
        ("averging", "must be a known attack, got 'averging'; did you mean 'averaging'?"),
        ("nowhere:Class", "attack: must be an importable module:Class"),
        ("os:sep", "must be a class"),
        ("collections:OrderedDict", "must be a class of an attack"),
        (NAMES["Nothing"], "must have a name and a method posteriors or scores"),
        (Needy, "a class must take no arguments without a default, got 'appetite'"),
        (3, "must be an attack, got 3"),
    ],
)
def test_what_is_no_attack(given, rule):
    with pytest.raises(InputError) as caught:
        make_attack(given)
    assert rule in str(caught.value)
    assert "\n" not in str(caught.value)


def test_names_of_attacks_in_records():
    assert attack_name("averaging") == "averaging"
    assert attack_name(Even) == attack_name(Even()) == "mine:Even"
    given = attack_name(ps.attacks.Forgetting(window=5))
    assert given == "poolscope.inference.attacks:Forgetting(window=5, name='forgetting')"
    for name, kind in ATTACKS.items():
        assert attack_name(kind) == attack_name(kind()) == name
    assert ":Averaging(" in attack_name(ps.attacks.Averaging(name="mean"))


def test_a_scenario_names_no_code():
    with pytest.raises(InputError, match="unknown key"):
        parse(SMALL.replace("[attack]", '[attack]\nattack = "evenmodule:Even"'), name="small")


def test_a_failing_attack_leaves_nothing_behind(tmp_path):
    class Wrong(Even):
        def posteriors(self, reports, lengths, observations, context):
            return np.full((len(lengths), len(observations), 3), np.nan)

    with pytest.raises(InputError, match="must be finite"):
        ps.audit(SCENARIO, tmp_path / "run", users=20, attacks=[Wrong()])
    assert not (tmp_path / "run" / "manifest.json").exists()
