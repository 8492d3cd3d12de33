"""One command a verb: parse, call, print; nothing computes."""
