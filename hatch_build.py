"""Makes the JavaScript of the pages when the wheel is built and puts it into the wheel; `html/render.py` reads it."""

from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

PLACE = "src/poolscope/html/vega.js"


class Bundle(BuildHookInterface):
    """For wheels, editable ones too; a source distribution is built again where it is installed."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Write the bundle into the tree, where git ignores it, and name it as a part of the wheel."""
        import vl_convert

        Path(self.root, PLACE).write_text(vl_convert.javascript_bundle(), encoding="utf-8")
        build_data["artifacts"].append(f"/{PLACE}")
