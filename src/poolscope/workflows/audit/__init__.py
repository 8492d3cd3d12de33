"""Play a scenario's game into a folder."""
