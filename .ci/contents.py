"""What the files of a release hold: ``python .ci/contents.py DIST``."""

import sys
import tarfile
import zipfile
from pathlib import Path

#: Most that a file of a release may weigh, in bytes.
WHEEL, SDIST = 3_000_000, 4_000_000

#: What may be in a wheel beside Python: templates, scenarios and experiments, what the pages are drawn with.
KINDS = {".py", ".toml", ".j2", ".typed", ".js", ".css", ".json", ".csv", ".txt", ".html", ".svg"}

#: What only this project's own checks need.
OURS = ("/.ci/", "/.git/", "/dist/", "/_build/", "__pycache__", ".parquet", ".npy")

#: The JavaScript of the HTML reports, made when the sdist is built, and what else no release may lack.
IN_WHEEL = ("poolscope/py.typed", "poolscope/html/vega.js")
IN_SDIST = (
    "LICENSE",
    "README.md",
    "CHANGELOG.md",
    "CITATION.cff",
    "pyproject.toml",
    "hatch_build.py",
    "src/poolscope/__init__.py",
    "src/poolscope/html/vega.js",
    "tests",
    "examples",
)


def wheel_faults(path: Path) -> list[str]:
    """What a wheel should not have, or lacks."""
    with zipfile.ZipFile(path) as archive:
        names = archive.namelist()
    ours = [name for name in names if name.startswith("poolscope/")]
    about = [name for name in names if ".dist-info/" in name]
    faults = [f"{name} does not belong" for name in names if name not in ours and name not in about]
    faults += [f"{name} is of no known kind" for name in ours if Path(name).suffix not in KINDS]
    faults += [f"{name} is a test" for name in ours if "test" in Path(name).name]
    for needed in ("/licenses/LICENSE", "/licenses/LICENSE-JAVASCRIPT.txt", "/METADATA", "/entry_points.txt"):
        if not any(name.endswith(needed) for name in about):
            faults.append(f"{needed} is missing")
    faults += [f"{needed} is missing" for needed in IN_WHEEL if needed not in names]
    return faults + heavy(path, WHEEL)


def sdist_faults(path: Path) -> list[str]:
    """What an sdist should not have, or lacks."""
    with tarfile.open(path) as archive:
        names = archive.getnames()
    faults = [f"{name} does not belong" for name in names if any(part in f"/{name}" for part in OURS)]
    for needed in IN_SDIST:
        if not any(name.partition("/")[2].startswith(needed) for name in names):
            faults.append(f"{needed} is missing")
    return faults + heavy(path, SDIST)


def heavy(path: Path, most: int) -> list[str]:
    """A file that weighs more than it may."""
    size = path.stat().st_size
    return [f"weighs {size:,} bytes, at most {most:,}"] if size > most else []


def main(dist: Path) -> int:
    """Print what is wrong; 1 if anything is."""
    (wheel,), (sdist,) = dist.glob("*.whl"), dist.glob("*.tar.gz")
    faults = [f"{wheel.name}: {fault}" for fault in wheel_faults(wheel)]
    faults += [f"{sdist.name}: {fault}" for fault in sdist_faults(sdist)]
    for line in faults:
        print(line)
    if not faults:
        print(f"{wheel.name} and {sdist.name} hold what they should")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
