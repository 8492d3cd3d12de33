"""Run audit, compare and advise, and write their HTML reports: the functions that the package exports.

The workflows know no HTML. Each function has a module of its own, and renderers are imported only when they are needed,
so that a simulation starts sooner.
"""
