"""Make the page of all public names from their docstrings: ``python docs/make_api.py > docs/api.md``."""

import inspect
from types import ModuleType

import poolscope as ps

GROUPS = {
    "Workflows": (
        "audit inspect attack attack_collections obfuscate estimate check compare sweep advise fit "
        "reproduce make_traces",
        "A function has the name and the meaning of its command: files in, files out.",
    ),
    "Arrays": (
        "play simulate outcomes_of posterior posterior_of_likelihood behavior_posterior joint_posterior frequencies "
        "summarize provenance",
        "For reports, likelihoods or a game in memory.",
    ),
    "Results": (
        "Summary Inspection Inferred Obfuscated Estimated Verdict Comparison Sweep Advice CollectionsAdvice "
        "Reproduction Extracted Frequencies BehaviorPosterior Provenance Simulated SimulatedTruth",
        "For annotations, and for the meaning of fields; records with intervals are in `ps.metrics`.",
    ),
    "Parts": ("Scenario load_scenario Game Universe Population Behavior Change Adversary Attack Mechanism Device", ""),
    "Execution and errors": ("Local Dask Progress InputError PoolscopeError", ""),
}

SPACES = ("mechanisms", "attacks", "popularity", "priors", "metrics", "figures", "random")

HEAD = """# Python API

`import poolscope as ps`. Names that are not listed here may change without notice. Each docstring has parameters,
shapes and references (`help(ps.posterior)`). On the site every name has a page with its docstring and an example.
`python docs/make_api.py` makes this page, and a test compares it with the code.

```{toctree}
:hidden:

api/verbs
api/arrays
api/results
api/parts
api/running
api/mechanisms
api/attacks
api/popularity
api/priors
api/metrics
api/figures
api/random
api/examples
```
"""


def first_line(thing: object) -> str:
    """Return the first line of a docstring, escaped for a table."""
    return (inspect.getdoc(thing) or "").partition("\n")[0].replace("|", "\\|")


#: Parameters that stand for any others.
ANY = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)


def call(name: str, thing: object) -> str:
    """Return the name with its arguments; their types are in the docstring."""
    if not callable(thing) or getattr(thing, "_is_protocol", False):
        return name
    try:
        parameters = [p for p in inspect.signature(thing).parameters.values() if p.kind not in ANY]
    except (TypeError, ValueError):
        return name
    return f"{name}({', '.join(p.name if p.default is p.empty else p.name + '=' for p in parameters)})"


def rows(prefix: str, names: list[str], home: ModuleType) -> list[str]:
    """Return a table of names."""
    lines = ["| name | summary |", "|---|---|"]
    for name in names:
        thing = getattr(home, name)
        lines.append(f"| `{prefix}{call(name, thing)}` | {first_line(thing)} |")
    return [*lines, ""]


def page() -> str:
    """Return the whole page."""
    lines = [HEAD]
    for title, (names, words) in GROUPS.items():
        lines += [f"## {title}", ""] + ([words, ""] if words else []) + rows("ps.", names.split(), ps)
    for space in SPACES:
        home = getattr(ps, space)
        # the docstring of a namespace describes data and aliases
        things = {name: getattr(home, name) for name in home.__all__}
        documented = [name for name, thing in things.items() if inspect.isclass(thing) or inspect.isfunction(thing)]
        lines += [f"## ps.{space}", "", first_line(home), "", *rows(f"ps.{space}.", documented, home)]
    return "\n".join(lines)


if __name__ == "__main__":
    print(page(), end="")
