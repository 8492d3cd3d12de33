"""Gates and JSON on the command line: exit codes, reasons, JUnit XML, and one JSON document on standard output."""

import json
import re
import xml.etree.ElementTree as ET
from pathlib import Path

import jsonschema
import pytest
from cases.command_line import SMALL, poolscope
from cases.report_files import small_attack

#: Elements and attributes of the common JUnit schema (junit-10.xsd of Jenkins): allowed children, then required and
#: optional attributes.
JUNIT = {
    "testsuites": ({"testsuite"}, set(), {"name", "time", "tests", "failures", "disabled", "errors"}),
    "testsuite": (
        {"properties", "testcase", "system-out", "system-err"},
        {"name", "tests"},
        {"failures", "errors", "time", "disabled", "skipped", "timestamp", "hostname", "id", "package"},
    ),
    "testcase": (
        {"skipped", "error", "failure", "system-out", "system-err"},
        {"name", "classname"},
        {"assertions", "time", "status"},
    ),
    "failure": (set(), set(), {"message", "type"}),
    "system-out": (set(), set(), set()),
}


@pytest.fixture
def scenario(tmp_path):
    path = tmp_path / "small.toml"
    path.write_text(SMALL)
    return path


def faults_of_junit(element):
    """What of an element breaks the schema."""
    children, required, optional = JUNIT[element.tag]
    yield from ({child.tag for child in element} - children)
    yield from (required - set(element.attrib))
    yield from (set(element.attrib) - required - optional)
    for name in ("tests", "failures", "errors", "skipped"):
        if name in element.attrib and not re.fullmatch(r"\d+", element.attrib[name]):
            yield name
    if "timestamp" in element.attrib and not re.fullmatch(
        r"\d{4}(-\d\d){2}T\d\d(:\d\d){2}", element.attrib["timestamp"]
    ):
        yield "timestamp"
    for child in element:
        if child.tag in JUNIT:
            yield from faults_of_junit(child)


@pytest.mark.slow
def test_a_gate_at_both_sides_of_the_border_with_both_policies(scenario, tmp_path):
    """The limit is below, inside and above the interval that a run without a gate has found."""
    assert poolscope("audit", scenario, "--out", "first", cwd=tmp_path).returncode == 0
    rows = json.loads((tmp_path / "first" / "summary.json").read_text())["results"]
    (row,) = (row for row in rows if (row["adversary"], row["n"]) == ("strong", 10))
    low, value, high = (row[f"auc_pn{end}"] for end in ("_low", "", "_high"))
    assert low < value < high
    limits = {"below": low - 1e-6, "inside": value, "above": high + 1e-6}
    for policy, codes in {"fail": (1, 1, 0), "pass": (1, 0, 0)}.items():
        for (side, limit), code in zip(limits.items(), codes, strict=True):
            condition = f"auc_pn > {limit!r} at 10 for strong"
            options = ("--fail-if", condition, "--on-uncertain", policy, "--out", f"{policy}-{side}")
            done = poolscope("audit", scenario, *options, cwd=tmp_path)
            assert done.returncode == code, (policy, side)
            if code:
                assert done.stderr.startswith(f"poolscope: gate failed: {condition}: auc_pn is {value:.4g} (95% CI ")
                assert done.stderr.count("\n") == 1
            else:
                assert (done.stderr, f"gate passed: {condition}" in done.stdout) == ("", True)
            # the run is there in any case
            assert (tmp_path / f"{policy}-{side}" / "report.html").exists()


def test_the_junit_report_has_a_case_for_each_gate(scenario, tmp_path):
    options = ("--fail-if", "auc_pn > 0.1", "--fail-if", "auc_pn < 0.1", "--junit", "gates.xml", "--out", "run")
    assert poolscope("audit", scenario, *options, cwd=tmp_path).returncode == 1
    suites = ET.parse(tmp_path / "gates.xml").getroot()
    assert not list(faults_of_junit(suites))
    (suite,) = suites
    assert suite.get("name") == "poolscope audit small"
    assert [suite.get(name) for name in ("tests", "failures", "errors", "skipped")] == ["2", "1", "0", "0"]
    assert [(case.get("name"), [child.tag for child in case]) for case in suite] == [
        ("auc_pn > 0.1", ["failure"]),
        ("auc_pn < 0.1", ["system-out"]),
    ]
    assert suite[0][0].get("message").startswith("auc_pn is 0.")
    # the next run replaces it, and no other file
    assert poolscope("audit", scenario, *options[:-1], "again", cwd=tmp_path).returncode == 1
    (tmp_path / "gates.xml").write_text("<notes/>")
    done = poolscope("audit", scenario, *options[:-1], "third", cwd=tmp_path)
    assert (done.returncode, (tmp_path / "third").exists()) == (2, False)
    assert "gates.xml: the output is there already" in done.stderr
    wrong = ET.fromstring('<testsuites><testsuite tests="x"><case/></testsuite></testsuites>')
    assert sorted(faults_of_junit(wrong)) == ["case", "name", "tests"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--fail-if", "exposd_90 > 0.02"), "did you mean 'exposed_90'?"),
        (("--fail-if", "exposed_90 > 0.02 at 4"), "n must be one of the result's, got '4'; known: 3, 10"),
        (("--fail-if", "exposed_90 > 0.02 at 3", "--observations", "4,9"), "got '3'; known: 4, 9"),
        (("--fail-if", "exposed_90 > 0.02 for wek"), "did you mean 'weak'?"),
        (("--fail-if", "exposed > 0.02"), "set a threshold with --threshold"),
        (("--fail-if", "exposed_90"), "gate: must read FIELD OP NUMBER"),
        (("--fail-if", "auc_pn > 0", "--on-uncertain", "ignore"), "--on-uncertain: must be fail or pass"),
        (("--junit", "gates.xml"), "--junit: must have --fail-if"),
        (("--fail-if", "auc_pn > 0", "--junit", "gates.txt"), "an output must end in .xml"),
        (("--fail-if", "auc_pn > 0", "--junit", "no/gates.xml"), "the output's folder must exist"),
    ],
)
def test_a_wrong_gate_is_refused_before_the_run(scenario, tmp_path, options, message):
    done = poolscope("audit", scenario, "--out", "run", *options, cwd=tmp_path)
    assert (done.returncode, done.stderr.count("\n"), done.stdout) == (2, 1, "")
    assert message in done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["small.toml"]


def test_an_asked_threshold_and_other_observations_are_gated(scenario, tmp_path):
    options = ("--threshold", "0.8", "--observations", "4,9", "--fail-if", "exposed < 0 at 9", "--users", "30")
    done = poolscope("audit", scenario, "--out", "run", *options, "--json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout == (tmp_path / "run" / "summary.json").read_text()
    assert "gate passed: exposed < 0 at 9" in done.stderr


@pytest.mark.slow
def test_a_comparison_is_gated_by_mechanism_and_epsilon(scenario, tmp_path):
    asked = ("compare", scenario, "--mechanism", "grr,oue", "--epsilon", "1,2", "--users", 30, "--estimate-from", 500)
    rows = json.loads(poolscope(*asked, "--out", "first", "--json", cwd=tmp_path).stdout)["results"]
    errors = {(row["mechanism"], row["epsilon"]): row["rmse"] for row in rows}
    limit = errors["oue", 2.0]
    gates = [f"rmse > {limit + off!r} where mechanism = oue and epsilon = 2" for off in (1e-9, -1e-9)]
    for out, (condition, code) in enumerate(zip(gates, (0, 1), strict=True)):
        assert poolscope(*asked, "--out", out, "--fail-if", condition, cwd=tmp_path).returncode == code
    for condition, message in {
        "rmse > 1 where mechanism = ou": "did you mean 'oue'?",
        "rmse > 1 where epsilon = 3": "epsilon must be one of the result's, got '3'; known: 1, 2",
        "rmse > 1 at 3": "n must be one of the result's, got '3'; known: 10",
    }.items():
        done = poolscope(*asked, "--out", "other", "--fail-if", condition, cwd=tmp_path)
        assert (done.returncode, (tmp_path / "other").exists()) == (2, False)
        assert message in done.stderr


@pytest.mark.slow
def test_an_advice_is_gated(scenario, tmp_path):
    asked = ("advise", scenario, "--max-exposed", 0.3, "--horizon", 3, "--mechanism", "grr", "--users", 60)
    options = ("--fail-if", "exposed > 0.3", "--fail-if", "epsilon < 0.01", "--junit", "gates.xml", "--on-uncertain")
    done = poolscope(*asked, *options, "pass", "--out", "run", "--json", cwd=tmp_path)
    found = json.loads(done.stdout)
    assert (tmp_path / "run" / "advice.json").read_text() == done.stdout
    cases = ET.parse(tmp_path / "gates.xml").getroot()[0]
    assert [case.get("name") for case in cases] == [
        "the recommendation meets the targets",
        "exposed > 0.3",
        "epsilon < 0.01",
    ]
    assert done.returncode == int(found["recommendation"]["exposed_low"] > 0.3)
    wrong = poolscope(*asked, "--fail-if", "exposd > 0.3", "--out", "other", cwd=tmp_path)
    assert (wrong.returncode, "did you mean 'exposed'?" in wrong.stderr) == (2, True)


def test_a_check_is_gated(scenario, tmp_path):
    scenario.write_text(SMALL.replace("epsilon = 4", "epsilon = 1"))
    asked = ("check", scenario, "--samples", 2000)
    done = poolscope(*asked, "--gate", "--json", "--junit", "gates.xml", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    schema = json.loads(poolscope("schema", "verdict", cwd=tmp_path).stdout)
    jsonschema.Draft202012Validator(schema).validate(found)
    assert found["false_alarm_rate"] == pytest.approx(1e-4)
    assert "A correct mechanism fails at most 1 in 10,000 checks" in done.stderr
    assert len(ET.parse(tmp_path / "gates.xml").getroot()[0]) == 1
    detectable = found["sampled"]["lower_bound"]["detectable"]
    gates = [f"sampled.lower_bound.detectable > {detectable + off!r}" for off in (1e-9, -1e-9)]
    for condition, code in zip(gates, (0, 1), strict=True):
        assert poolscope(*asked, "--gate", "--fail-if", condition, cwd=tmp_path).returncode == code
    both = poolscope(*asked, "--gate", "--confidence", 0.9, cwd=tmp_path)
    assert (both.returncode, "must not be given with --gate" in both.stderr) == (2, True)


@pytest.mark.slow
def test_json_of_the_commands_on_scenarios_and_folders(scenario, tmp_path):
    done = poolscope("audit", scenario, "--out", "run", "--json", cwd=tmp_path)
    assert done.stdout == (tmp_path / "run" / "summary.json").read_text()
    assert "strong adversary" in done.stderr
    assert json.loads(poolscope("render", "run", "--json", cwd=tmp_path).stdout) == {"files": ["run/report.html"]}
    drawn = json.loads(poolscope("figures", "run", "--json", cwd=tmp_path).stdout)["files"]
    assert drawn
    assert all((tmp_path / path).exists() for path in drawn)
    again = json.loads(poolscope("rerun", "run", "--json", cwd=tmp_path).stdout)
    assert again["agrees"] is True
    listed = json.loads(poolscope("scenarios", "--json", cwd=tmp_path).stdout)
    assert {"apple-emojis", "chrome-rappor"} <= {one["name"] for one in listed}
    one = json.loads(poolscope("scenarios", "apple-emojis", "--json", cwd=tmp_path).stdout)
    assert "[mechanism]" in one["text"]


@pytest.mark.slow
def test_json_of_the_commands_on_files(tmp_path):
    small_attack(tmp_path)
    at = ("--scenario", "small.toml", "--json")

    def found(*command):
        done = poolscope(*command, cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        assert done.stderr  # the text
        return json.loads(done.stdout)

    attacked = found("attack", "reports.parquet", *at, "--out", "posteriors.csv")
    assert attacked["users"] > 0
    assert attacked["passed"] is True
    assert {"adversary", "n", "confidence", "guesses"} <= set(attacked["results"][0])
    user = attacked["preview"][0]["user"]
    story = found("attack", "reports.parquet", *at, "--user", user)
    assert len(story["table"]) == story["reports"] * len({row["adversary"] for row in story["table"]})
    estimated = found("estimate", "reports.parquet", *at)
    assert len(estimated["table"]) == estimated["objects"] == 30
    (tmp_path / "traces.csv").write_text("user,object\nann,3\nann,7\nbob,30\n")
    (tmp_path / "objects.csv").write_text("object,pool\n" + "".join(f"{z},{'ab'[z > 5]}\n" for z in range(31)))
    made = ("--universe", "objects.csv", "--user", "user", "--object", "object", "--out", "made.csv", "--json")
    assert found("traces", "traces.csv", *made)["users"] == 2
    (tmp_path / "traces.csv").write_text("user,object\nann,3\nann,7\nbob,20\n")
    sent = found("obfuscate", "traces.csv", *at, "--out", "sent.csv")
    assert sent == {"users": 2, "reports": 3}


@pytest.mark.slow
def test_json_of_a_reproduction(tmp_path):
    done = poolscope("reproduce", "no-hash", "--users", 20, "--out", "done", "--json", cwd=tmp_path)
    assert json.loads(done.stdout) == json.loads(
        Path(tmp_path / "done" / "reproduction.json").read_text(encoding="utf-8")
    )
