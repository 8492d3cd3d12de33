"""Names in the table of outcomes, for those who read it and need not make it."""

from poolscope.attack.levels import at_levels

#: The adversary row of the game without a mechanism.
NON_PRIVATE = "non-private"

#: Column that may take the place of guess and pool: whether they are the same.
CORRECT = "correct"

#: Confidences at which a user counts as exposed, and the columns that say by how many reports.
EXPOSED = at_levels("exposed")

#: The same for the game's own threshold, where it has one.
EXPOSED_AT_THRESHOLD = "exposed"


def exposed_columns(threshold: float | None) -> dict[str, float]:
    """The columns that say by how many reports a user was exposed, and the confidence of each."""
    own = {} if threshold is None else {EXPOSED_AT_THRESHOLD: threshold}
    return {column: level for level, column in EXPOSED.items()} | own
