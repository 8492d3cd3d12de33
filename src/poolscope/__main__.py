"""``python -m poolscope``."""

from poolscope.cli.commands import main

main()
