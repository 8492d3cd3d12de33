"""Column names of the outcome table, for modules that read it without playing games."""

from collections.abc import Iterable

from poolscope.inference.thresholds import at_levels

#: The adversary name of the game without a mechanism.
NON_PRIVATE = "non-private"

#: Column that may replace guess and pool: whether they are equal.
CORRECT = "correct"

#: Thresholds at which a user counts as exposed, and the columns with the number of reports until then.
EXPOSED = at_levels("exposed_at")

#: The same for the game's own threshold, where it has one.
EXPOSED_AT_THRESHOLD = "exposed_at_threshold"

#: Index of the adversary's popularity estimate that the user played against; null for adversaries who estimate nothing.
#: Only in games where an adversary has more than one.
ESTIMATE = "estimate"

#: Collections that a row is about: all jointly, one, or all but one; only where a person has several.
COLLECTION = "collection"

#: Log-odds of the true value of the attribute; only with collections.
LOG_ODDS = "log_odds_true"

#: Share of a user's reports of whose tuples the adversary guesses the sampled attribute; only where reports hide it.
SAMPLED_CORRECT = "sampled_correct"

#: Monte Carlo standard error of the confidence; only in games where an adversary samples.
CONFIDENCE_MCSE = "confidence_mcse"

#: Suffixes of the number of reports until exposure if the confidence were larger, or smaller, by its standard error.
PLUS_MCSE, MINUS_MCSE = "_plus_mcse", "_minus_mcse"


def with_errors(columns: Iterable[str]) -> tuple[str, ...]:
    """Return columns of a table with a sampling adversary, each followed by the columns of its Monte Carlo error."""
    out: list[str] = []
    for name in columns:
        out.append(name)
        if name == "confidence":
            out.append(CONFIDENCE_MCSE)
        if name == EXPOSED_AT_THRESHOLD or name in EXPOSED.values():
            out += [name + PLUS_MCSE, name + MINUS_MCSE]
    return tuple(out)


def exposed_columns(threshold: float | None) -> dict[str, float]:
    """Return the columns with the number of reports at which a user was exposed, and the threshold of each."""
    own = {} if threshold is None else {EXPOSED_AT_THRESHOLD: threshold}
    return {column: level for level, column in EXPOSED.items()} | own


LOG_ODDS_ADDED = "log_odds_added."
"""Columns of what each collection adds to the log-odds of a guess, before its name."""
