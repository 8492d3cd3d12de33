"""What every room stands on: errors, randomness, engines, tables."""
