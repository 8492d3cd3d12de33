"""``python -m poolscope``."""

from poolscope.cli.commands import program

program()
