"""Truth against belief: the game, its blocks, its outcomes."""
