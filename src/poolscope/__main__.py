"""``python -m poolscope``."""

from poolscope.cli import main

main()
