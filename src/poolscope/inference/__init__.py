"""Adversaries: posteriors from reports, decisions, and linkage of pseudonyms."""
