"""Put the JavaScript of the HTML reports into the sdist and the wheel; `html/render.py` reads it."""

from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

PLACE = "src/poolscope/html/vega.js"


class Bundle(BuildHookInterface):
    """Make the bundle in a checkout, and reuse the one that an sdist carries."""

    def _carried(self) -> bool:
        # only an sdist has PKG-INFO; a checkout may hold the bundle of an older vl-convert
        return Path(self.root, "PKG-INFO").is_file() and Path(self.root, PLACE).is_file()

    def dependencies(self) -> list[str]:
        """Require vl-convert, which is compiled, only where the bundle has to be made."""
        return [] if self._carried() else ["vl-convert-python>=1.9"]

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Write the bundle into the tree, where git ignores it, and name it as a part of the release."""
        if not self._carried():
            import vl_convert

            Path(self.root, PLACE).write_text(vl_convert.javascript_bundle(), encoding="utf-8")
        build_data["artifacts"].append(f"/{PLACE}")
