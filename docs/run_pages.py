"""Run the code blocks of pages and rewrite what they print: ``python docs/run_pages.py [PAGE...]``.

Without a page it runs all of them, and copies the output of the tour into the README.

The blocks of a page run in order in one new folder. A block ``toml NAME`` or ``csv NAME`` becomes a file of that name,
``sh`` runs in the shell, ``python`` in one interpreter. A block ``text`` right after a block holds what that one
prints. ``<!-- from PATH -->`` above a picture or a link names the file of the folder that it is a copy of.
"""

import contextlib
import io
import os
import re
import shutil
import stat
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

DOCS = Path(__file__).parent

PAGES = (
    "start/tour.md",
    "tutorials/audit-a-deployment.md",
    "tutorials/analyze-reports.md",
    "tutorials/study-a-mechanism.md",
    "tutorials/notebook.md",
    "guides/add-an-attack.md",
    "guides/fit.md",
    "guides/add-a-population.md",
    "guides/add-a-device.md",
    "results/changing-behavior.md",
    "guides/gate-ci.md",
    "guides/sweep.md",
    "explanation/multidimensional.md",
    "explanation/pool-inference.md",
)

BLOCK = re.compile(r"^```(?P<kind>toml|csv|sh|python) ?(?P<name>\S*)\n(?P<code>.*?)^```$", re.DOTALL | re.MULTILINE)

PRINTED = re.compile(r"\A\n\n```text\n(?P<text>.*?)^```$", re.DOTALL | re.MULTILINE)

PICTURE = re.compile(r"<!-- from (?P<made>\S+) -->\n!?\[[^\]]*\]\((?:\.\./)*(?P<kept>figures/\S+)\)")

#: What differs from run to run: elapsed time.
TIMES = re.compile(r"\b\d+\.\d s\b")


def run(page: str, folder: Path) -> Iterator[tuple[re.Match[str], str]]:
    """Yield each block of a page's text and what it printed, in a folder of its own."""
    names: dict[str, object] = {"__name__": "__main__"}
    for block in BLOCK.finditer(page):
        if block["kind"] == "python":
            yield block, _python(block["code"], names, folder)
        elif block["kind"] == "sh":
            yield block, run_shell(block["code"], folder)
        elif block["name"]:
            (folder / block["name"]).write_text(block["code"])


def expected(page: str, block: re.Match[str]) -> str | None:
    """Return what the page shows as the output of a block, or None where it shows nothing."""
    found = PRINTED.match(page[block.end() :])
    return found["text"] if found else None


def timeless(text: str) -> str:
    """Return printed text without elapsed seconds and without blanks at the ends of lines."""
    return "\n".join(line.rstrip() for line in TIMES.sub("# s", text).strip("\n").splitlines())


def _python(code: str, names: dict[str, object], folder: Path) -> str:
    printed = io.StringIO()
    with contextlib.chdir(folder), contextlib.redirect_stdout(printed):
        exec(compile(code, "page", "exec"), names)
    return printed.getvalue()


def run_shell(code: str, folder: Path) -> str:
    """Return what commands print in a folder; an error shows what one that fails prints."""
    place = folder / ".bin"
    place.mkdir(exist_ok=True)
    command = place / "poolscope"
    command.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m poolscope "$@"\n')
    command.chmod(command.stat().st_mode | stat.S_IXUSR)
    known = {**os.environ, "PATH": f"{place}{os.pathsep}{os.environ['PATH']}", "COLUMNS": "100", "NO_COLOR": "1"}
    done = subprocess.run(["bash", "-ec", code], cwd=folder, env=known, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"{code}{done.stdout}{done.stderr}")
    return done.stdout


def renewed(page: str, folder: Path) -> str:
    """Return the page with what its blocks print now, and copy its pictures."""
    parts, end = [], 0
    for block, printed in run(page, folder):
        parts.append(page[end : block.end()])
        end = block.end()
        if shown := PRINTED.match(page[end:]):
            text = "\n".join(line.rstrip() for line in printed.strip("\n").splitlines())
            parts.append(f"\n\n```text\n{text}\n```")
            end += shown.end()
    for picture in PICTURE.finditer(page):
        shutil.copyfile(folder / picture["made"], DOCS / picture["kept"])
    return "".join([*parts, page[end:]])


def quoted(page: str, source: str) -> str:
    """Return a page whose shell blocks with an output show what the same blocks of another page print."""
    printed = {block["code"]: expected(source, block) for block in BLOCK.finditer(source)}
    for block in reversed(list(BLOCK.finditer(page))):
        shown, text = PRINTED.match(page[block.end() :]), printed.get(block["code"])
        if shown and text is not None:
            page = f"{page[: block.end()]}\n\n```text\n{text}```{page[block.end() + shown.end() :]}"
    return page


if __name__ == "__main__":
    for name in sys.argv[1:] or PAGES:
        start = time.monotonic()
        with tempfile.TemporaryDirectory() as folder:
            text = (DOCS / name).read_text()
            (DOCS / name).write_text(renewed(text, Path(folder)))
        print(f"{name}: {time.monotonic() - start:.0f} s", flush=True)
    readme = DOCS.parent / "README.md"
    readme.write_text(quoted(readme.read_text(), (DOCS / "start" / "tour.md").read_text()))
