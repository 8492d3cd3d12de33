"""The script of each role (attack, population, device) is short and runs as the page shows it."""

import importlib.util
import re
from pathlib import Path

import pytest

DOCS = Path(__file__).parent.parent / "docs"
ROLES = ("an-attack", "a-population", "a-device")


@pytest.fixture(scope="module")
def pages():
    spec = importlib.util.spec_from_file_location("run_pages", DOCS / "run_pages.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("role", ROLES)
def test_the_script_has_at_most_25_lines(role):
    script = re.search(r"```python\n(.*?)```", (DOCS / "guides" / f"add-{role}.md").read_text(), flags=re.DOTALL)[1]
    assert len([line for line in script.splitlines() if line.strip()]) <= 25


@pytest.mark.parametrize("role", ROLES)
def test_the_script_prints_what_the_page_shows(role, pages, tmp_path):
    text = (DOCS / "guides" / f"add-{role}.md").read_text()
    block, printed = next(pages.run(text, tmp_path))
    assert printed.strip()
    assert printed == pages.expected(text, block)
