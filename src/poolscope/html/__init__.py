"""Figures and HTML pages: records in, files to look at out."""
