"""The pool inference game: users with known preferences against adversaries, in blocks."""
