"""What every layer stands on: errors, randomness, engines, tables."""
