"""A real browser, and what a reader does in it: rest the pointer on a picture, and save one."""

from __future__ import annotations

import re
import shutil
import xml.etree.ElementTree as ET
from contextlib import contextmanager

import pytest

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")

needs_chromium = pytest.mark.skipif(
    CHROMIUM is None, reason="there is no chromium on this machine: apt-get install chromium"
)

#: By the word of a line: the share of users exposed, in records.
SHARES = {"confidence ≥ 50%": "exposed_50", "confidence ≥ 90%": "exposed_90", "confidence ≥ 95%": "exposed_95"}


@contextmanager
def launched():
    """The browser."""
    from playwright.sync_api import sync_playwright

    options = ["--no-sandbox", "--disable-gpu", "--disable-background-networking"]
    with sync_playwright() as playing:
        running = playing.chromium.launch(executable_path=CHROMIUM, args=options)
        yield running
        running.close()


def pointed_at(page, chart, place, n):
    """What the exposure chart answers along the right edge of a panel, where all n reports are sent: by line."""
    box = page.locator(chart)
    box.scroll_into_view_if_needed()
    panel = box.locator("g.role-scope.cell > g").nth(place).bounding_box()
    said = {}
    for step in range(1, 40):
        page.mouse.move(panel["x"] + panel["width"] - (16, 6)[step % 2], panel["y"] + 200 * step / 40)
        answer = page.locator("#answer.visible")
        if answer.count() and f" n {n} " in (rest := " ".join(answer.locator("table").inner_text().split())):
            said[answer.locator("h2").inner_text()] = rest
    assert set(said) & set(SHARES)
    return said


def tells(said, record):
    """Every answer of the pointer has the record's number and its interval."""
    for title, facts in said.items():
        value, low, high = (100 * record[SHARES[title] + end] for end in ("", "_low", "_high"))
        assert f"Users exposed {value:.1f}%" in facts
        assert f"{low:.1f}–{high:.1f}%" in facts


def saved(page, chart):
    """The name of the file under which a picture is saved as SVG, and the SVG."""
    menu = page.locator(f"{chart} details")
    menu.locator("summary").click()
    assert menu.locator("a").all_inner_texts() == ["Save as SVG", "Save as PNG"]
    with page.expect_download() as download:
        menu.locator("a").first.click()
    return download.value.suggested_filename, download.value.path().read_text("utf-8")


def saved_as_text(svg, names):
    """A drawing has these names as text, and nothing that a reader's browser would run, fetch or turn."""
    elements = list(ET.fromstring(svg).iter())
    assert {element.tag.rpartition("}")[2] for element in elements} <= {
        *("svg", "rect", "g", "path", "line", "text", "tspan", "defs", "clipPath", "linearGradient", "stop", "title"),
    }
    attributes = {name.rpartition("}")[2] for element in elements for name in element.attrib}
    assert not [name for name in attributes if name == "href" or name.startswith("on")]
    assert not re.search("[\u200e\u200f\u202a-\u202e\u2066-\u2069]", svg)
    texts = "\n".join(element.text or "" for element in elements)
    for name in names:
        assert name in texts
