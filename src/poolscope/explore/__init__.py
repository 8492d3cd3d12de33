"""The explorer: one page, and the server behind it, on this machine only."""
