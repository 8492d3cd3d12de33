"""Names in the table of outcomes, for those who read it and need not make it."""

from collections.abc import Iterable

from poolscope.inference.levels import at_levels

#: The adversary row of the game without a mechanism.
NON_PRIVATE = "non-private"

#: Column that may take the place of guess and pool: whether they are the same.
CORRECT = "correct"

#: Confidences at which a user counts as exposed, and the columns that say by how many reports.
EXPOSED = at_levels("exposed_at")

#: The same for the game's own threshold, where it has one.
EXPOSED_AT_THRESHOLD = "exposed_at_threshold"

#: Which of an adversary's estimates of the popularity the user met; null for adversaries who estimate nothing. Only
#: where an adversary of the game has more than one.
ESTIMATE = "estimate"

#: The standard error of the confidence that chance in the attack leaves; only where an adversary samples.
CONFIDENCE_MCSE = "confidence_mcse"

#: Beside a column that says by how many reports a user was exposed: by how many, were the confidence more by its error,
#: and were it less.
PLUS_MCSE, MINUS_MCSE = "_plus_mcse", "_minus_mcse"


def with_errors(columns: Iterable[str]) -> tuple[str, ...]:
    """Columns of a table in which an adversary samples, each followed by those that say how far chance moves it."""
    out: list[str] = []
    for name in columns:
        out.append(name)
        if name == "confidence":
            out.append(CONFIDENCE_MCSE)
        if name == EXPOSED_AT_THRESHOLD or name in EXPOSED.values():
            out += [name + PLUS_MCSE, name + MINUS_MCSE]
    return tuple(out)


def exposed_columns(threshold: float | None) -> dict[str, float]:
    """The columns that say by how many reports a user was exposed, and the confidence of each."""
    own = {} if threshold is None else {EXPOSED_AT_THRESHOLD: threshold}
    return {column: level for level, column in EXPOSED.items()} | own
