"""How the site is built: `python -m sphinx -W docs docs/_build`, with poolscope[docs] installed."""

import poolscope

project = "poolscope"
author = "The poolscope developers"
copyright = author
version = release = poolscope.__version__

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.mathjax",
    "numpydoc",
    "sphinx_design",
    "sphinx_copybutton",
]
exclude_patterns = ["_build", "README.md"]

myst_enable_extensions = ["colon_fence", "dollarmath"]
myst_heading_anchors = 3

numpydoc_show_class_members = False
numpydoc_validation_checks = set()

html_theme = "pydata_sphinx_theme"
html_title = "poolscope"
