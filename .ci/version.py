"""Check that the tag of a release and what names its version agree: ``python .ci/version.py v0.1.0``."""

import re
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent

#: Where the version stands beside the package, and how.
STATED = {
    "CITATION.cff": r"version: (\S+)",
    "docs/cite.md": r"  version   = \{(\S+)\},",
    "recipe/recipe.yaml": r"  version: (\S+)",
}


def faults(root: Path, tag: str) -> list[str]:
    """Return what does not fit the tag, a line each."""
    version = tag.removeprefix("v")
    found = []
    package = _first(r'__version__ = "(.+)"', root / "src/poolscope/__init__.py")
    if f"v{package}" != tag:
        found.append(f"the tag is {tag}, the package has version {package}")
    for name, pattern in STATED.items():
        if (stated := _first(pattern, root / name)) != version:
            found.append(f"{name} has version {stated or 'none'}, not {version}")
    day = _first(rf"## \[{re.escape(version)}\] - (.+)", root / "CHANGELOG.md")
    if not re.fullmatch(r"\d{4}-\d\d-\d\d", day):
        found.append(f"CHANGELOG.md has no day for {version}: {day or 'no heading'}")
    elif (released := _first(r"date-released: (\S+)", root / "CITATION.cff")) != day:
        found.append(f"CITATION.cff has date-released {released or 'missing'}, CHANGELOG.md has {day}")
    return found


def _first(pattern: str, path: Path) -> str:
    match = re.search(rf"(?m)^{pattern}$", path.read_text(encoding="utf-8"))
    return match[1].strip("\"'") if match else ""


def main(tag: str) -> int:
    """Print what is wrong; 1 if anything is."""
    lines = faults(ROOT, tag)
    print("\n".join(lines) or f"{tag}: everything that names the version agrees")
    return 1 if lines else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
