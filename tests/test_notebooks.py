"""The notebooks of examples/ run, print what they show, and show their charts without a network."""

import ast
import contextlib
import io
import json
from pathlib import Path

import pytest
from cases.printed import assert_printed

EXAMPLES = Path(__file__).parent.parent / "examples"
NOTEBOOKS = sorted(EXAMPLES.glob("*.ipynb"))


def code_cells(path):
    return [cell for cell in json.loads(path.read_text())["cells"] if cell["cell_type"] == "code"]


def shown(cell):
    """What a stored cell printed, and the kinds of what it shows."""
    printed = "".join("".join(out["text"]) for out in cell["outputs"] if out["output_type"] == "stream")
    kinds = {kind for out in cell["outputs"] if "data" in out for kind in out["data"]}
    return printed, kinds


def run(source, names):
    """Run a cell as a notebook does: return what it prints, and the value of its last line."""
    tree = ast.parse(source)
    last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        exec(compile(tree, "cell", "exec"), names)
        value = None if last is None else eval(compile(ast.Expression(last.value), "cell", "eval"), names)
    return out.getvalue(), value


def test_there_are_three():
    assert len(NOTEBOOKS) >= 3


@pytest.mark.default_cases("own-mechanism")
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_prints_what_it_shows(path, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names = {}
    for cell in code_cells(path):
        printed, kinds = shown(cell)
        found, value = run("".join(cell["source"]), names)
        assert_printed(found, printed)
        if "image/svg+xml" in kinds:
            assert "<svg" in value._repr_mimebundle_()["image/svg+xml"]
        elif "text/html" in kinds:
            assert value._repr_html_()


def test_no_output_is_an_error_or_a_path_of_a_machine():
    for path in NOTEBOOKS:
        for cell in code_cells(path):
            assert cell["execution_count"], "the notebook has been run"
            assert all(out["output_type"] != "error" for out in cell["outputs"])
        # no folder of the machine that ran it
        assert str(Path(__file__).parents[1]) not in path.read_text()
        assert "/home/" not in path.read_text()
