"""Reproduce the paper, and write the report of it."""

from poolscope.html.workflows import with_page
from poolscope.paper import runner
from poolscope.paper.report import write_page

reproduce = with_page(runner.reproduce, write_page)
