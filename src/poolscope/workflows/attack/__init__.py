"""The attack on reports in a file."""
