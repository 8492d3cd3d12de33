"""Names in the table of outcomes, for those who read it and need not make it."""

#: The adversary row of the game without a mechanism.
NON_PRIVATE = "non-private"

#: Column that may take the place of guess and pool: whether they are the same.
CORRECT = "correct"

#: Confidences at which a user counts as exposed, and the columns that say by how many reports.
EXPOSED = {0.5: "exposed_50", 0.9: "exposed_90", 0.95: "exposed_95"}
