"""An audit and the scenarios to start from, on the terminal."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rich.table import Table

from poolscope.cli.terminal import Terminal
from poolscope.metrics.records import in_plain_words, is_skewed
from poolscope.scenario.scenario import builtin_names, load_scenario


def print_audit(summary: Mapping[str, Any], report: Path) -> None:
    """Table of adversaries by observation count, the headline in words, and where the report is."""
    console = Terminal()
    table = Table(title=str(summary["scenario"]["title"]), title_justify="left")
    names = ["adversary", "n", "AUC", "95 % interval", "precision", "top 10 %", "baseline"]
    skewed = is_skewed(summary["results"][0])
    names += ["majority"] if skewed else []
    tau = summary["results"][0].get("threshold")
    if tau is not None:
        names += [f"guessed at {tau:g}", "right then"]
    for name in names:
        table.add_column(name, justify="left" if name == "adversary" else "right")
    last = None
    for row in summary["results"]:
        if last is not None and row["adversary"] != last:
            table.add_section()
        table.add_row(
            row["adversary"] if row["adversary"] != last else "",
            str(row["n"]),
            f"{row['auc']:.3f}",
            f"{row['auc_low']:.3f}-{row['auc_high']:.3f}",
            f"{row['precision']:.3f}",
            f"{row['precision_top10']:.3f}",
            f"{row['baseline']:.3f}",
            *([f"{row['majority']:.3f}"] if skewed else []),
            *_at_threshold(row),
        )
        last = row["adversary"]
    console.print(table)
    console.print(in_plain_words(summary["results"], summary["adversaries"]), highlight=False)
    console.print(
        f"{summary['users']:,} users, seed {summary['seed']}, {summary['seconds']:.1f} s. Report: {report}",
        style="dim",
        highlight=False,
        soft_wrap=True,
    )


def _at_threshold(row: Mapping[str, Any]) -> list[str]:
    """With a threshold: the share of users who get a guess, and how often it is right."""
    if "threshold" not in row:
        return []
    guessed = 1.0 - row["null_rate"]
    return [f"{guessed:.3f}", f"{row['precision_at_threshold']:.3f}" if guessed else "-"]


def print_scenarios() -> None:
    """The built-in scenarios with their titles."""
    table = Table(box=None, pad_edge=False)
    table.add_column("scenario")
    table.add_column("title")
    for name in builtin_names():
        table.add_row(name, load_scenario(name).title)
    Terminal().print(table)
