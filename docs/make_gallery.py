"""Make one HTML report of each kind for the gallery of the site: ``python docs/make_gallery.py [FOLDER]``."""

import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import poolscope as ps

DOCS = Path(__file__).parent

REPORTS = ("audit.html", "comparison.html", "advice.html", "posteriors.html")


def make(folder: Path) -> None:
    """Make the reports, unless the folder has those of this version."""
    mark = folder / "version.txt"
    if mark.exists() and mark.read_text() == ps.__version__:
        return
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as place:
        work = Path(place)
        (work / "stickers.toml").write_text(_stickers())
        _run(work, "audit apple-emojis --users 500 --seed 1 --out audit")
        _run(work, "compare stickers.toml --mechanism cms,oue,grr --epsilon 1,4 --users 200 --seed 1 --out comparison")
        asked = "--max-exposed 0.1 --horizon 30 --mechanism cms,oue --users 200 --seed 1"
        _run(work, f"advise stickers.toml {asked} --out advice", accepted=(0, 1))
        (work / "traces.csv").write_text(_traces())
        _run(work, "obfuscate traces.csv --scenario stickers.toml --out reports.parquet --seed 1")
        _run(work, "attack reports.parquet --scenario stickers.toml --out posteriors.parquet --html posteriors.html")
        for made, name in (
            ("audit/report.html", "audit.html"),
            ("comparison/comparison.html", "comparison.html"),
            ("advice/advice.html", "advice.html"),
            ("posteriors.html", "posteriors.html"),
        ):
            shutil.copyfile(work / made, folder / name)
    mark.write_text(ps.__version__)


def _stickers() -> str:
    """Return the scenario of the tutorial, with an adversary who knows the popularity: no time for estimates."""
    page = (DOCS / "tutorials" / "audit-a-deployment.md").read_text()
    found = re.search(r"^```toml mine.toml\n(.*?)^```", page, re.DOTALL | re.MULTILINE)
    assert found is not None
    return found[1].replace('popularity = "estimated"\nestimate_from = 100_000', 'popularity = "true"')


def _traces() -> str:
    """Return traces of 90 users, each of whom mostly picks from one pool of 60 objects."""
    rows = [f"user-{u:02},{60 * (u % 3) + t * t % 20 if t % 3 else 200 + t}" for u in range(90) for t in range(90)]
    return "\n".join(["user,object", *rows, ""])


def _run(folder: Path, arguments: str, accepted: tuple[int, ...] = (0,)) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "poolscope", *arguments.split()],
        cwd=folder,
        env={**os.environ, "NO_COLOR": "1"},
        capture_output=True,
        text=True,
    )
    if done.returncode not in accepted:
        raise RuntimeError(f"poolscope {arguments}: {done.stdout}{done.stderr}")


if __name__ == "__main__":
    make(Path(sys.argv[1]) if len(sys.argv) > 1 else DOCS / "_extra" / "gallery")
