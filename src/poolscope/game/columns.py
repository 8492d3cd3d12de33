"""Names in the table of outcomes, for those who read it and need not make it."""

#: The adversary row of the game without a mechanism.
NON_PRIVATE = "non-private"

#: Column that may take the place of guess and pool: whether they are the same.
CORRECT = "correct"

#: Confidences whose first crossing is recorded, and their columns.
REACHED = {0.5: "reached_50", 0.9: "reached_90", 0.95: "reached_95"}
