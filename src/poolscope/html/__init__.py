"""Render records as self-contained HTML reports."""
