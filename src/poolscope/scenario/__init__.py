"""TOML files and the objects that they name."""
