"""A release holds what it should, what names its version agrees, and the workflows are pinned and need no secret."""

import re
import runpy
import shutil
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from copy import deepcopy
from pathlib import Path
from types import SimpleNamespace

import pytest
import yaml

import poolscope

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))

in_checkout = pytest.mark.skipif(not WORKFLOWS, reason="an sdist has no workflows")

#: An action by its commit, with the version that the commit has.
PINNED = re.compile(r"[\w.-]+(/[\w.-]+)+@[0-9a-f]{40} # v\d+(\.\d+)*")

#: The version of the metadata that the publishing action can read.
METADATA = b"Metadata-Version: 2.4\n"


def unpinned(text):
    """Return the actions of a workflow that a moved tag could replace."""
    return [line for line in re.findall(r"(?m)^\s*(?:- )?uses: (.+)$", text) if not PINNED.fullmatch(line)]


def workflow_faults(flow):
    """Return what a workflow grants or leaves open beyond what its jobs need."""
    found = [] if flow.get("permissions") in ({}, {"contents": "read"}) else ["the default permissions are wide"]
    group = flow.get("concurrency", {}).get("group")
    found += [] if group else ["runs of one branch are not limited"]
    # YAML 1.1 reads the key "on" as true
    if "schedule" in flow[True] and group and "github.event_name" not in group:
        found.append("a push waits for a scheduled run")
    for name, job in flow["jobs"].items():
        steps = job["steps"]
        granted = set(job.get("permissions", {}).items()) - {("contents", "read")}
        if granted and not (name == "publish" and granted == {("id-token", "write")}):
            found.append(f"{name}: has {sorted(granted)}")
        if "timeout-minutes" not in job:
            found.append(f"{name}: may run for hours")
        for step in steps:
            keeps = step.get("with", {}).get("persist-credentials", True)
            if step.get("uses", "").startswith("actions/checkout@") and keeps:
                found.append(f"{name}: later steps can read the token")
    return found


@in_checkout
@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_a_workflow_is_pinned_and_has_the_least_privilege(path):
    text = path.read_text(encoding="utf-8")
    flow = yaml.safe_load(text)
    assert unpinned(text) == []
    assert workflow_faults(flow) == []
    assert "secrets." not in text
    wide, kept, open_ended = deepcopy(flow), deepcopy(flow), deepcopy(flow)
    wide["permissions"] = "write-all"
    first = next(iter(flow["jobs"]))
    del kept["jobs"][first]["steps"][0]["with"]["persist-credentials"]
    del open_ended["jobs"][first]["timeout-minutes"]
    assert all(len(workflow_faults(worse)) == 1 for worse in (wide, kept, open_ended))
    assert unpinned(re.sub(r"@[0-9a-f]{40} # ", "@", text, count=1)) != []
    assert unpinned(re.sub(r" # v[\d.]+", "", text, count=1)) != []


@in_checkout
def test_the_workflow_of_the_guide_has_the_pinned_actions_of_our_own():
    text = (ROOT / "docs/guides/gate-ci.md").read_text(encoding="utf-8")
    ours = "".join(path.read_text(encoding="utf-8") for path in WORKFLOWS)
    used = re.findall(r"(?m)uses: (\S+@\S+)", text)
    assert len(used) == 3
    assert unpinned(text) == []
    assert [action for action in used if action not in ours] == []
    assert "pip install poolscope" not in text


@in_checkout
def test_only_a_wheel_that_was_tested_is_published():
    jobs = yaml.safe_load((ROOT / ".github/workflows/release.yml").read_text(encoding="utf-8"))["jobs"]
    assert jobs["publish"]["needs"] == "test"
    assert jobs["test"]["needs"] == "build"
    builds = [name for name, job in jobs.items() if any(".ci/release" in step.get("run", "") for step in job["steps"])]
    assert builds == ["build"]
    last = jobs["publish"]["steps"][-1]
    assert last["uses"].startswith("pypa/gh-action-pypi-publish@")
    assert last["with"] == {"attestations": True}


@in_checkout
def test_systems_that_were_not_tried_show_failures_and_gate_nothing():
    assert "macOS, Windows and ARM are expected to work but were not tried" in (ROOT / "CHANGELOG.md").read_text()
    for workflow, name in (("test", "suite"), ("release", "test")):
        text = (ROOT / f".github/workflows/{workflow}.yml").read_text(encoding="utf-8")
        job = yaml.safe_load(text)["jobs"][name]
        assert job["continue-on-error"] == "${{ matrix.os != 'ubuntu-latest' }}"
        assert "# CHANGELOG.md says that macOS and Windows were not tried: they show their failures" in text
        (limit,) = [step["timeout-minutes"] for step in job["steps"] if step.get("run") == "pytest -n auto"]
        assert limit < job["timeout-minutes"]


@in_checkout
def test_every_supported_python_is_tested():
    named = [line.rpartition(" ")[2] for line in PROJECT["project"]["classifiers"] if re.search(r":: 3\.\d+$", line)]
    suite = yaml.safe_load((ROOT / ".github/workflows/test.yml").read_text(encoding="utf-8"))["jobs"]["suite"]
    assert suite["strategy"]["matrix"]["python"] == named
    assert f"${{PYTHONS:-{' '.join(named)}}}" in (ROOT / ".ci/interpreters").read_text(encoding="utf-8")
    assert PROJECT["project"]["requires-python"] == f">={named[0]}"
    jobs = yaml.safe_load((ROOT / ".github/workflows/release.yml").read_text(encoding="utf-8"))["jobs"]
    steps = jobs["build"]["steps"]
    (installed,) = [step["with"]["python-version"] for step in steps if "python-version" in step.get("with", {})]
    (required,) = [step["env"]["PYTHONS"] for step in steps if ".ci/release" in step.get("run", "")]
    assert sorted(installed.split()) == required.split() == named


@pytest.fixture
def machine(tmp_path):
    """Run a script of .ci on a machine whose pyenv has no Python 3, and which has these versions beside it."""
    commands = tmp_path / "bin"
    commands.mkdir()
    for name in ("bash", "dirname", "grep", "paste"):
        (commands / name).symlink_to(shutil.which(name))

    def run(script, *versions, **environment):
        for name, text in {"pyenv": "2.7.18", **{f"python{version}": f"/at/{version}" for version in versions}}.items():
            (commands / name).write_text(f"#!{commands}/bash\necho {text}\n", encoding="utf-8")
            (commands / name).chmod(0o755)
        command, variables = [ROOT / ".ci" / script, tmp_path / "dist"], {"PATH": str(commands), **environment}
        return subprocess.run(command, env=variables, capture_output=True, text=True, check=False)

    return run


@in_checkout
@pytest.mark.skipif(sys.platform == "win32", reason="the scripts of .ci are for a POSIX shell")
def test_a_release_is_used_on_every_python_that_it_asks_for(machine):
    for script in ("interpreters", "release", "pythons"):
        assert "no supported Python is installed" in machine(script).stderr
        assert machine(script).returncode == 1
    found = machine("interpreters", "3.11", "3.13")
    assert (found.returncode, found.stdout) == (0, "3.11 /at/3.11\n3.13 /at/3.13\n")
    assert machine("interpreters", PYTHONS="3.13").stdout == "3.13 /at/3.13\n"
    for script in ("interpreters", "release", "pythons"):
        refused = machine(script, PYTHONS="3.13 3.14")
        assert refused.returncode == 1
        assert refused.stderr == "Python 3.14: not installed, not tried\n"


@in_checkout
def test_hooks_before_a_commit_fetch_nothing_and_do_what_ci_does():
    repos = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text(encoding="utf-8"))["repos"]
    assert [repo["repo"] for repo in repos] == ["local"]
    ci = (ROOT / ".ci/run").read_text(encoding="utf-8")
    assert all(f"/{hook['name']}" in ci for hook in repos[0]["hooks"])
    assert {hook["language"] for hook in repos[0]["hooks"]} == {"system"}
    # pyproject.toml has the settings of all and data that ruff checks; the types of a notebook nobody checks
    code = ["src/poolscope/core/files.py", "stubs/a.pyi"]
    checked = {
        "ruff-check": [*code, "examples/first-audit.ipynb", "pyproject.toml"],
        "ruff-format": [*code, "examples/first-audit.ipynb"],
        "mypy": [*code, "pyproject.toml"],
        "pyright": [*code, "pyproject.toml"],
    }
    names = [*code, "examples/first-audit.ipynb", "pyproject.toml", "docs/index.md", "docs/pyproject.toml"]
    found = {hook["id"]: [name for name in names if re.search(hook["files"], name)] for hook in repos[0]["hooks"]}
    assert found == checked


@in_checkout
def test_everything_that_names_the_version_agrees(tmp_path):
    check = runpy.run_path(str(ROOT / ".ci/version.py"))
    tag = f"v{poolscope.__version__}"
    for name in ("src/poolscope/__init__.py", "CHANGELOG.md", *check["STATED"]):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    # a release has a day, the code before it none
    day, changes, cited = "2001-02-03", tmp_path / "CHANGELOG.md", tmp_path / "CITATION.cff"
    head = rf"(?m)^## \[{re.escape(poolscope.__version__)}\] - .*$"
    for heading in ("Unreleased", day):
        written, count = re.subn(head, f"## [{poolscope.__version__}] - {heading}", changes.read_text(encoding="utf-8"))
        assert count == 1
        changes.write_text(written, encoding="utf-8")
        (fault,) = check["faults"](tmp_path, tag)
        assert fault.startswith(
            "CHANGELOG.md has no day" if heading == "Unreleased" else "CITATION.cff has date-released"
        )
    dateless = re.sub(r"(?m)^date-released: .*\n", "", cited.read_text(encoding="utf-8"))
    cited.write_text(f"{dateless}date-released: {day}\n", encoding="utf-8")
    assert check["faults"](tmp_path, tag) == []
    assert check["faults"](tmp_path, "v99.0.0") != []
    for name in check["STATED"]:
        stated = (tmp_path / name).read_text(encoding="utf-8")
        (tmp_path / name).write_text(stated.replace(poolscope.__version__, "0.0.9"), encoding="utf-8")
        (fault,) = check["faults"](tmp_path, tag)
        assert fault.startswith(name)
        (tmp_path / name).write_text(stated, encoding="utf-8")
    changes.write_text(changes.read_text(encoding="utf-8").replace(day, "2001-01-01"), encoding="utf-8")
    assert check["faults"](tmp_path, tag) != []


@in_checkout
def test_a_citation_has_the_day_of_the_release():
    """Before a release, that of the cited state."""
    changes, cited = ((ROOT / name).read_text(encoding="utf-8") for name in ("CHANGELOG.md", "CITATION.cff"))
    (day,) = re.findall(rf"(?m)^## \[{re.escape(poolscope.__version__)}\] - (.*)$", changes)
    (released,) = re.findall(r"(?m)^date-released: (\d{4}-\d\d-\d\d)$", cited)
    assert day in ("Unreleased", released)


def test_added_features_are_one_line_each():
    lines = (
        (ROOT / "CHANGELOG.md").read_text(encoding="utf-8").partition("### Added\n")[2].partition("\n#")[0].split("\n")
    )
    items = [line for line in lines if line]
    assert len(items) <= 16
    assert [line for line in items if not line.startswith("- ") or len(line) > 150] == []


def test_the_software_is_cited_and_the_paper_beside_it():
    cited = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert cited["type"] == "software"
    assert cited["version"] == poolscope.__version__
    assert "preferred-citation" not in cited
    (paper,) = cited["references"]
    assert paper["title"].startswith("Pool Inference Attacks")


def extra_requirements(name):
    """Return the requirements of an extra, those of the extras that it names included."""
    for entry in PROJECT["project"]["optional-dependencies"][name]:
        named = re.fullmatch(r"poolscope\[(.+)\]", entry)
        yield from (line for one in named[1].split(",") for line in extra_requirements(one)) if named else [entry]


def group_requirements(name):
    """Return the requirements of a dependency group, those of the groups that it includes too."""
    for entry in PROJECT["dependency-groups"][name]:
        yield from group_requirements(entry["include-group"]) if isinstance(entry, dict) else [entry]


@pytest.mark.parametrize("name", ["test", "lint", "docs"])
def test_a_group_has_the_requirements_of_the_extra_of_its_name(name):
    """And none of poolscope itself, which a package index may not have."""
    found = list(group_requirements(name))
    assert sorted(found) == sorted(extra_requirements(name))
    assert [line for line in found if line.startswith("poolscope")] == []
    assert set(found) < set(group_requirements("dev"))


@in_checkout
def test_the_conda_recipe_needs_what_the_package_needs():
    text = (ROOT / "recipe/recipe.yaml").read_text(encoding="utf-8")
    run = yaml.safe_load(text)["requirements"]["run"]
    project = PROJECT["project"]
    wanted = [f"python{project['requires-python']}", *project["dependencies"]]
    assert [entry.replace(" ", "") for entry in run] == wanted


@in_checkout
def test_the_container_runs_without_root_and_gets_what_the_build_needs():
    lines = (ROOT / "Dockerfile").read_text(encoding="utf-8").splitlines()
    users = [line.split()[1] for line in lines if line.startswith("USER ")]
    assert len(users) == 1
    assert int(users[0]) > 0
    assert lines.index(f"USER {users[0]}") > max(i for i, line in enumerate(lines) if line.startswith("FROM "))
    taken = (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines()
    about = PROJECT["project"]
    needed = {"src", "pyproject.toml", "hatch_build.py", about["readme"], *about["license-files"]}
    assert needed == {line[1:] for line in taken if line.startswith("!")}


def pages_without_source(included):
    """Return the pages of the site whose text is a file that the sdist lacks."""
    found = []
    for page in (ROOT / "docs").glob("*.md"):
        for name in re.findall(r"(?m)^```\{(?:literal)?include\} \.\./(\S+)", page.read_text(encoding="utf-8")):
            if not any(f"/{name}".startswith(entry) for entry in included):
                found.append(page.name)
    return found


def test_the_sdist_has_every_file_that_the_site_includes():
    included = PROJECT["tool"]["hatch"]["build"]["targets"]["sdist"]["include"]
    assert [entry for entry in included if not (ROOT / entry[1:]).exists()] == []
    assert pages_without_source(included) == []
    assert pages_without_source([entry for entry in included if entry != "/SECURITY.md"]) == ["security.md"]


@pytest.fixture
def tree(tmp_path):
    """A small part of a checkout, as git has it: without the JavaScript bundle."""
    place = tmp_path / "tree"
    ignored = shutil.ignore_patterns("__pycache__", "vega.js")
    shutil.copytree(ROOT / "src/poolscope/html", place / "src/poolscope/html", ignore=ignored)
    for folder in ("tests", "examples"):
        (place / folder).mkdir()
    files = ["pyproject.toml", "hatch_build.py", "README.md", "CHANGELOG.md", "CITATION.cff"]
    files += ["tests/conftest.py", "examples/rs-fd.toml"]
    files += ["src/poolscope/__init__.py", "src/poolscope/py.typed", *PROJECT["project"]["license-files"]]
    for name in files:
        shutil.copy(ROOT / name, place / name)
    return place


def without(archive, name, out):
    """Copy a zip file, all but one member."""
    with zipfile.ZipFile(archive) as source, zipfile.ZipFile(out, "w") as copy:
        for member in source.namelist():
            if member != name:
                copy.writestr(member, source.read(member))
    return out


def test_a_wheel_from_the_sdist_needs_no_compiled_package(tree, tmp_path, monkeypatch):
    """The bundle is made in a checkout, travels in the sdist, and is not made again from there."""
    from hatchling import build

    monkeypatch.chdir(tree)
    monkeypatch.setitem(sys.modules, "vl_convert", SimpleNamespace(javascript_bundle=lambda: "/* made */"))
    assert build.get_requires_for_build_sdist() == ["vl-convert-python>=1.9"]
    sdist = tmp_path / build.build_sdist(str(tmp_path))
    with tarfile.open(sdist) as archive:
        archive.extractall(tmp_path, filter="data")
        about = archive.extractfile(f"{sdist.name.removesuffix('.tar.gz')}/PKG-INFO").read()
    assert about.startswith(METADATA)
    # a checkout makes it again, though it has one now: that may be of an older vl-convert
    assert build.get_requires_for_build_wheel() == ["vl-convert-python>=1.9"]
    monkeypatch.setitem(sys.modules, "vl_convert", None)
    with pytest.raises(ImportError):
        build.build_wheel(str(tmp_path))

    monkeypatch.chdir(tmp_path / sdist.name.removesuffix(".tar.gz"))
    assert build.get_requires_for_build_wheel() == []
    wheel = tmp_path / build.build_wheel(str(tmp_path))
    with zipfile.ZipFile(wheel) as archive:
        assert archive.read("poolscope/html/vega.js") == b"/* made */"
        (about,) = [name for name in archive.namelist() if name.endswith(".dist-info/METADATA")]
        assert archive.read(about).startswith(METADATA)
    if WORKFLOWS:
        contents = runpy.run_path(str(ROOT / ".ci/contents.py"))
        assert contents["wheel_faults"](wheel) == []
        assert contents["sdist_faults"](sdist) == []
        worse = without(wheel, "poolscope/html/vega.js", tmp_path / "worse.whl")
        assert contents["wheel_faults"](worse) == ["poolscope/html/vega.js is missing"]
