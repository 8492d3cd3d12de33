"""The layers: every module in one, imports only downwards, libraries only where they belong."""

import ast
import re
from pathlib import Path

import pytest

import poolscope

PACKAGE = Path(poolscope.__file__).parent
TESTS = Path(__file__).parent

#: From the top: a layer imports from itself and from those after it.
LAYERS = (
    "cli",
    "explore",
    "paper",
    "html",
    "figures",
    "workflows",
    "scenario",
    "metrics",
    "game",
    "inference",
    "reports",
    "devices",
    "mechanisms",
    "population",
    "core",
    "kernels",
)

LOOSE = {"__init__.py", "__main__.py", "py.typed"}

#: Public namespaces, which import nothing by themselves and name what lies anywhere.
NAMESPACES = {"mechanisms"}

#: Library -> the layers (or modules) that may know it. Those that are not listed may be used anywhere.
AT_HOME = {
    "typer": ("cli",),
    "rich": ("cli",),
    "jinja2": ("html",),
    "markupsafe": ("html", "explore"),
    "altair": ("figures.notebook",),
    "vl_convert": ("figures", "html.render"),
    "starlette": ("explore",),
    "uvicorn": ("explore",),
    "pydantic": ("scenario", "workflows", "metrics", "paper", "core.validation"),
    "pydantic_core": ("scenario", "metrics", "core.validation"),
    "tomlkit": ("scenario",),
    "dask": ("core",),
    "distributed": ("core",),
    "numba": ("kernels",),
    "llvmlite": ("kernels",),
    "filelock": ("core.files",),
    "platformdirs": ("html.render",),
    "emoji": ("population.builtin",),
    "pandas": ("metrics.tables",),
    "pyarrow": ("core.tables.readers",),
    "zstandard": ("core.tables.readers",),
}

#: Folders of tests that are no layer: slow independent oracles, what several tests share, and a user's script.
SHARED_TESTS = {"oracle", "cases", "typed"}

#: Tests of the whole project that have to name layers.
OF_ALL = {
    "test_docs.py",
    "test_docs_code.py",
    "test_docs_mechanism.py",
    "test_docs_site.py",
    "test_public_names.py",
    "test_selection.py",
}


def modules():
    for path in sorted(PACKAGE.rglob("*.py")):
        parts = path.relative_to(PACKAGE).with_suffix("").parts
        yield path, ".".join(part for part in parts if part != "__init__")


def statements(tree):
    """Every statement of a file, however deep; the expressions in them, which import nothing, are left out."""
    for name in ("body", "orelse", "finalbody", "handlers", "cases"):
        for node in getattr(tree, name, ()):
            yield node
            yield from statements(node)


def imported(tree):
    """Every module that a file imports, wherever in the file; a name from a package counts as a module of it."""
    for node in statements(tree):
        if isinstance(node, ast.Import):
            yield from ((alias.name, node.lineno) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"relative import in line {node.lineno}"
            yield from ((f"{node.module}.{alias.name}", node.lineno) for alias in node.names)


def upward(module, text):
    """The imports of a module's text that point up, and the libraries that are not at home there."""
    layer = module.partition(".")[0]
    for name, line in imported(ast.parse(text)):
        library, _, rest = name.partition(".")
        if library == "poolscope":
            target = rest.partition(".")[0]
            allowed = LAYERS[LAYERS.index(layer) :] if layer in LAYERS and module not in NAMESPACES else LAYERS
            if target not in allowed and rest != "__version__":
                yield f"{module}:{line} imports {name}"
        elif library in AT_HOME and not any(f"{module}.".startswith(f"{home}.") for home in AT_HOME[library]):
            yield f"{module}:{line} imports {library}, which is at home in {', '.join(AT_HOME[library])}"


def test_no_module_is_loose():
    assert {path.name for path in PACKAGE.iterdir() if path.is_file()} == LOOSE
    assert {path.name for path in PACKAGE.iterdir() if path.is_dir() and path.name != "__pycache__"} == set(LAYERS)
    for path, module in modules():
        assert (path.parent / "__init__.py").exists(), f"{module} is not in a package"


def test_imports_point_down():
    """Lazy imports too. The package's root may name anything; it imports nothing by itself."""
    assert [line for path, module in modules() for line in upward(module, path.read_text())] == []


@pytest.mark.parametrize(
    ("module", "text"),
    [
        ("kernels.cms", "from poolscope.core import errors"),
        ("game.game", "def late():\n    from poolscope.metrics.precision import auc_pn"),
        ("metrics.records", "import poolscope.scenario.tables"),
        ("inference.decide", "from poolscope import metrics"),
        ("workflows.audit.run", "import rich"),
        ("inference.posterior", "from numba import njit"),
        ("population.universe", "from poolscope import Universe"),
        ("core.files", "try:\n    x = 1\nexcept OSError:\n    with x:\n        import numba"),
        (
            "core.files",
            "match x:\n    case 1:\n        if x:\n            pass\n        else:\n            import numba",
        ),
    ],
)
def test_an_import_that_points_up_is_found(module, text):
    assert len(list(upward(module, text))) == 1


#: What changes the process that imports the package.
PROCESS = re.compile(r"environ\[[^]]*\] *=[^=]|environ\.(setdefault|update|pop)|putenv|signal\.signal\(")


def test_only_the_command_line_changes_its_process():
    found = [module for path, module in modules() if PROCESS.search(path.read_text())]
    assert [module for module in found if not module.startswith("cli.")] == []
    assert found, "it is looked for"


def test_tests_mirror_the_rooms():
    """A folder of tests for each layer; loose tests are of the whole project."""
    folders = {path.name for path in TESTS.iterdir() if path.is_dir() and path.name not in ("__pycache__",)}
    assert folders <= {*LAYERS, *SHARED_TESTS}
    for path in TESTS.rglob("test_*.py"):
        parts = path.relative_to(TESTS).parts
        assert len(parts) == 1 or parts[0] in LAYERS or parts[0] == "oracle", path
    for path in TESTS.glob("test_*.py"):
        about = {
            name.split(".")[1] for name, _ in imported(ast.parse(path.read_text())) if name.startswith("poolscope.")
        }
        assert not about & set(LAYERS) or path.name in OF_ALL, f"{path.name} tests a layer: {sorted(about)}"


def test_no_module_is_long():
    assert [f"{module}: {n}" for path, module in modules() if (n := len(path.read_text().splitlines())) > 450] == []
