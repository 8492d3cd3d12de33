"""Documentation and code agree: the README is current, commands, mechanisms and result fields are documented."""

import ast
import inspect
import json
import re
from dataclasses import fields
from pathlib import Path

import numpy as np
import polars as pl
import pytest
import typer
from cases.collections import scenario
from cases.command_line import SMALL

import poolscope
from poolscope.cli.commands import app
from poolscope.cli.rerun import SCHEMAS
from poolscope.html.glossary import ADVICE, AUDIT, COMPARISON, MEANINGS
from poolscope.mechanisms import MECHANISMS
from poolscope.metrics.models import json_schema
from poolscope.metrics.provenance import Provenance
from poolscope.scenario.scenario import parse
from poolscope.workflows.audit.run_folder import Manifest
from poolscope.workflows.rerun import Rerun
from poolscope.workflows.sweep import SweepPlan

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text()
DOCS = ROOT / "docs"
MECHANISM_PAGE = (DOCS / "reference" / "mechanisms.md").read_text()
RESULT_PAGE = (DOCS / "reference" / "results.md").read_text()


def test_the_readme_is_short_and_shows_what_the_tour_prints():
    assert len(re.sub(r"(?ms)^```.*?^```", "", README).split()) <= 550
    shown = re.findall(r"(?ms)^```sh\n(poolscope audit [^\n]*)\n```\n\n```text\n(.*?)^```", README)
    tour = (DOCS / "start" / "tour.md").read_text()
    assert len(shown) == 1
    assert f"```sh\n{shown[0][0]}\n```\n\n```text\n{shown[0][1]}```" in tour, "python docs/run_pages.py"


@pytest.mark.parametrize("command", sorted(typer.main.get_command(app).commands))
def test_every_command_is_in_a_guide(command):
    pages = [DOCS / "provenance.md", *(DOCS / "guides").glob("*.md"), *(DOCS / "results").glob("*.md")]
    assert any(f"poolscope {command}" in page.read_text() for page in pages)


@pytest.mark.parametrize("kind", sorted(MECHANISMS))
def test_every_mechanism_its_keys_and_its_columns_are_documented(kind):
    """In the table of mechanisms; a sketch's keys may stand in the row of another."""
    (row,) = re.findall(rf"(?m)^\| `{kind}` \|.*$", MECHANISM_PAGE)
    facts = set(re.findall(r"`(\w+)`", row))
    for other in re.findall(r"as `(\w+)`", row):
        facts |= set(re.findall(r"`(\w+)`", re.findall(rf"(?m)^\| `{other}` \|.*$", MECHANISM_PAGE)[0]))
    keys = set(inspect.signature(MECHANISMS[kind]).parameters) - {"universe"}
    assert keys <= facts, keys - facts
    universe = 4
    files = {"matrix": np.full((universe, 2), 0.5), "samples": np.array([[z, 0] for z in range(universe)])}
    given = {"epsilon": 1.0, "m": 8, "hashes": 2, **files}
    made = MECHANISMS[kind](universe=universe, **{key: given[key] for key in keys & set(given)})
    assert set(made.report_columns) <= facts


def facts(section, head):
    """The names in the first column of a table of the result fields; an estimate (±) has its ends too."""
    part = RESULT_PAGE[RESULT_PAGE.index(f"# {section}\n") :]
    rows = part[part.index(f"| {head} |") :].split("\n\n")[0].splitlines()[2:]
    names = set()
    for row in rows:
        first, second = row.split("|")[1:3]
        ends = ("", "_low", "_high") if second.strip() == "±" else ("",)
        names |= {f"{name}{end}" for name in re.findall(r"`(\w+)`", first) for end in ends}
    return names


@pytest.fixture(scope="module")
def played(tmp_path_factory):
    """The folder of an audit that has a threshold, and adversaries who sample."""
    folder = tmp_path_factory.mktemp("docs") / "run"
    kept = parse(SMALL + "threshold = 0.9\n[devices]\nmemoize = true\n", name="small")
    poolscope.audit(kept, folder, users=20, html=False)
    return folder


def test_every_column_of_the_outcomes_is_documented(played):
    assert set(pl.read_parquet(played / "outcomes" / "*.parquet").columns) == facts("Outcomes", "column")


def test_every_field_of_a_summary_is_documented(played):
    summary = json.loads((played / "summary.json").read_text())
    assert set(summary) == facts("Summary", "field")
    for record in summary["results"]:
        assert set(record) == facts("Summary", "field of a record")


def test_every_field_of_a_manifest_and_of_a_sweep_is_documented():
    assert {entry.name for entry in fields(Manifest)} == facts("Manifest", "field")
    assert {entry.name for entry in fields(SweepPlan)} == facts("A sweep's folder", "field")


def test_every_field_of_a_provenance_is_documented():
    rows = re.findall(r"(?m)^\| (`.*?`) \|", (DOCS / "provenance.md").read_text())
    assert {entry.name for entry in fields(Provenance)} == set(re.findall(r"`(\w+)`", " ".join(rows)))


def printed():
    """What the page says that commands print: the name of the schema, and the fields, of each command."""
    section = RESULT_PAGE[RESULT_PAGE.index("## JSON on standard output") :]
    table = section[section.index("| command | schema | fields |") :].split("\n\n")[0].splitlines()[2:]
    rows = ([cell.strip() for cell in row.strip("|").split("|")] for row in table)
    return {
        command.strip("`"): (schema.strip("`"), set(re.findall(r"`(\w+)`", what))) for command, schema, what in rows
    }


def test_what_commands_print_is_documented():
    """With the name of its schema, which `poolscope schema` describes by the command."""
    whole = {command: re.fullmatch(r"what (\w+) prints with --json", what) for command, what in SCHEMAS.items()}
    schemas = {found[1]: schema for schema, found in whole.items() if found}
    assert {command: schema for command, (schema, _) in printed().items() if schema} == schemas
    assert printed()["rerun"][1] == set(json_schema(Rerun)["properties"])


def test_pages_on_formats_name_every_result_file():
    written = {f"{name}.json" for name, what in SCHEMAS.items() if what.startswith(f"{name}.json")}
    assert {"summary.json", "sweep.json"} < written
    for page in ("provenance.md", "stability.md"):
        text = (DOCS / page).read_text()
        assert [name for name in sorted(written) if f"`{name}`" not in text] == [], page


def test_every_field_of_a_comparison_is_documented():
    done = poolscope.compare(parse(SMALL, name="small"), ["grr"], [1.0], users=20, estimate_from=100).as_json()
    assert set(done) == facts("A comparison's folder", "field")
    assert set(done["scenario"]) == {"name", "file", "title", "text", "asked"}
    both = facts("Summary", "field of a record") | facts("A comparison's folder", "field of a configuration")
    given = {
        name
        for name in both
        if re.fullmatch(r"threshold|(confident_at_threshold|precision_at_threshold|exposed)(_low|_high)?", name)
    }
    given |= {name for name in both if name.startswith("confidence_mcse")}
    for record in done["results"]:
        assert set(record) == both - given
    choice = {"mechanism", "epsilon", "composition_bound", "pareto_optimal", "n_above", "recall_top10"}
    choice |= {f"{error}{form}" for error in ("mse", "rmse", "mae") for form in ("", "_analytical")}
    assert set(done["non_private"]) == both - given - choice


def test_every_field_of_an_advice_is_documented():
    section = "Folder of `advise`"
    asked = {"horizon": 3, "max_error": 0.2, "devices": 500, "mechanisms": ["grr"], "users": 30, "mitigations": True}
    done = poolscope.advise(parse(SMALL, name="small"), max_exposed=0.3, **asked).as_json()
    assert set(done) == facts(section, "field")
    assert set(done["question"]) <= set(
        re.findall(r"`(\w+)`", RESULT_PAGE[RESULT_PAGE.index("| `question` |") :].split("\n")[0])
    )
    assert set(done["recommendation"]) == facts(section, "field of a recommendation")
    (finding,) = done["findings"]
    assert set(finding) == facts(section, "field of a finding")
    for entry, head in (
        (finding["trials"][0], "a trial"),
        (done["alternatives"][0], "an alternative"),
        (done["options"][0], "an option"),
        (done["usefulness"], "`usefulness`"),
        (done["sensitivity"][0], "a variant"),
        (done["mitigations"][0], "a mitigation"),
    ):
        assert set(entry) == facts(section, f"field of {head}")


def test_every_field_of_an_advice_on_collections_is_documented():
    section = "Advice on several collections"
    weak = {"name": "weak", "popularity": "uniform"}
    asked = {"horizon": 3, "threshold": 0.6, "adversary": "weak", "epsilon": (1.0, 4.0), "users": 60}
    done = poolscope.advise(scenario(adversary=[weak]), max_exposed=0.2, max_error={}, **asked).as_json()
    names = {"scenario", "format", "seed", "version", "asked_users", "adversary", "sentence", "relaxations", "notes"}
    shared = names | {"assumptions", "seconds", "provenance"}
    assert set(done) - shared == facts(section, "field")
    assert shared <= facts("Folder of `advise`", "field")
    assert set(done["collections"][0]) == facts(section, "field of a collection")
    assert set(done["recommendation"]) == facts(section, "field of the recommendation")


def test_the_table_of_bounds_is_what_they_are():
    page = (DOCS / "explanation" / "bounds.md").read_text()
    rows = re.findall(r"^\| ε = ([\d.]+) \|(.*)\|$", page, flags=re.MULTILINE)
    assert len(rows) == 3
    for epsilon, cells in rows:
        found = [poolscope.metrics.success_bound(float(epsilon), n, 1 / 6) for n in (1, 7, 30, 180)]
        assert [f"{100 * value:.1f}%" for value in found] == [cell.strip() for cell in cells.split("|")]


def test_the_table_of_shuffled_epsilons_is_what_they_are():
    page = (DOCS / "explanation" / "bounds.md").read_text().partition("## Shuffled reports")[2]
    rows = re.findall(r"^\| `(\w+)`.* \| ([\d.]+) \| [\d.]+ \| [\d.]+ \|$", page, flags=re.MULTILINE)
    assert len(rows) == 7, rows
    hashed = {"hcms": {"m": 1024, "hashes": 16}}
    for kind, of_a_thousand in rows:
        mechanism = poolscope.mechanisms.make(kind, 2600, {"epsilon": 4.0, **hashed.get(kind, {})})
        assert f"{poolscope.metrics.shuffle_epsilon_of_mechanism(mechanism, 1000, 1e-6):.3f}" == of_a_thousand
    (found,) = re.findall(r"^\| any mechanism \| ([\d.]+) \|", page, flags=re.MULTILINE)
    assert f"{poolscope.metrics.shuffle_epsilon(4.0, 1000, 1e-6):.3f}" == found


def test_two_ideas_have_two_words():
    """Confident at n, exposed by n: none of the words that once meant one or the other."""
    old = re.compile(r"reached_\d|guessed at|null_rate_(low|high)")
    facts = [README, *(page.read_text() for page in DOCS.rglob("*.md"))]
    code = [path.read_text() for path in (ROOT / "src").rglob("*") if path.suffix in (".py", ".j2")]
    assert not [found.group() for text in facts + code for found in old.finditer(text)]
    assert {"Confident at n", "Exposed by n"} <= set(MEANINGS)
    assert set(MEANINGS) == {*AUDIT, *COMPARISON} >= set(ADVICE)


def test_metrics_are_exported_and_explained():
    for name in poolscope.metrics.__all__:
        assert inspect.getdoc(getattr(poolscope.metrics, name)), name


def test_no_module_is_too_long_or_called_utils():
    for path in (ROOT / "src").rglob("*.py"):
        assert path.name != "utils.py"
        assert len(path.read_text().splitlines()) <= 450, path


def test_no_formula_has_doubled_backslashes():
    r"""A raw docstring that writes ``\\gamma`` shows as text, not as a formula."""
    assert doubled_backslashes('r"""\\\\gamma"""') == [r"\\gamma"], "the negative control"
    for path in sorted((ROOT / "src").rglob("*.py")):
        found = doubled_backslashes(path.read_text())
        assert not found, f"{path}: {found}"


def doubled_backslashes(text):
    """Lines of docstrings with two backslashes before a letter; a text without them is not parsed."""
    doubled = re.compile(r".*\\\\[a-z].*")
    if not doubled.search(text):
        return []
    nodes = [
        node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef)
    ]
    return [line for node in nodes for line in doubled.findall(ast.get_docstring(node) or "")]
