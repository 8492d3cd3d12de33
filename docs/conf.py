"""Configure the site: `python -m sphinx -W docs docs/_build`, with poolscope[docs] installed."""

import sys
from pathlib import Path

from pygments.lexers.special import TextLexer
from sphinx.highlighting import lexers

import poolscope

DOCS = Path(__file__).parent
sys.path.insert(0, str(DOCS))

project = "poolscope"
author = "The poolscope developers"
copyright = author
version = release = poolscope.__version__

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.mathjax",
    "sphinx-mathjax-offline",
    "numpydoc",
    "sphinx_design",
    "sphinx_copybutton",
]
exclude_patterns = ["_build", "_extra", "README.md"]

myst_enable_extensions = ["attrs_inline", "colon_fence", "dollarmath"]
myst_heading_anchors = 4

# tables of text, as a file has them
lexers["csv"] = TextLexer()

default_role = "literal"
autodoc_typehints_format = "short"
toc_object_entries = False
autodoc_member_order = "bysource"
python_maximum_signature_line_length = 88
python_use_unqualified_type_names = True
numpydoc_show_class_members = False
numpydoc_validation_checks = set()

html_theme = "pydata_sphinx_theme"
html_title = "poolscope"
html_static_path = ["_static"]
html_extra_path = ["_extra"]
html_css_files = ["site.css"]
html_copy_source = html_show_sourcelink = False
html_theme_options = {
    "navigation_with_keys": False,
    "header_links_before_dropdown": 7,
    "show_toc_level": 2,
    "footer_start": ["copyright"],
    "footer_end": [],
    "secondary_sidebar_items": ["page-toc"],
    "pygments_light_style": "a11y-high-contrast-light",
    "pygments_dark_style": "a11y-high-contrast-dark",
}
copybutton_exclude = ".linenos, .gp, .go"


def setup(app: object) -> None:
    """Make the pages and reports that come from the code before anything is read."""
    from make_gallery import make
    from make_reference import write

    write(DOCS / "api")
    make(DOCS / "_extra" / "gallery")
