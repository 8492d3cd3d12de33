"""Check that a tag, the package, CITATION.cff and CHANGELOG.md agree on a release: ``python .ci/version.py v0.1.0``."""

import re
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent


def faults(root: Path, tag: str) -> list[str]:
    """Return what does not fit the tag, a line each."""
    version = tag.removeprefix("v")
    found = []
    package = _first(r'__version__ = "(.+)"', root / "src/poolscope/__init__.py")
    if f"v{package}" != tag:
        found.append(f"the tag is {tag}, the package has version {package}")
    cited = _first(r"version: (\S+)", root / "CITATION.cff")
    if cited != version:
        found.append(f"CITATION.cff has version {cited}, not {version}")
    day = _first(rf"## {re.escape(version)} \((.+)\)", root / "CHANGELOG.md")
    if not re.fullmatch(r"\d{4}-\d\d-\d\d", day):
        found.append(f"CHANGELOG.md has no day for {version}: {day or 'no heading'}")
    elif _first(r"date-released: (\S+)", root / "CITATION.cff") != day:
        found.append(f"CITATION.cff and CHANGELOG.md do not have the same day for {version}")
    return found


def _first(pattern: str, path: Path) -> str:
    match = re.search(rf"(?m)^{pattern}$", path.read_text(encoding="utf-8"))
    return match[1].strip("\"'") if match else ""


def main(tag: str) -> int:
    """Print what is wrong; 1 if anything is."""
    lines = faults(ROOT, tag)
    print("\n".join(lines) or f"{tag}: package, CITATION.cff and CHANGELOG.md agree")
    return 1 if lines else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
