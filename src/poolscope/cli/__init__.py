"""Command line: parse options, call one library function, print."""
