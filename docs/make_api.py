"""The page of all public names, from their docstrings: ``python docs/make_api.py > docs/api.md``."""

import inspect
from types import ModuleType

import poolscope as ps

GROUPS = {
    "What the commands do": (
        "audit attack obfuscate estimate check compare advise reproduce make_traces",
        "A verb has its command's name and meaning; files in, files out, and a page where the command writes one.",
    ),
    "The same on arrays": (
        "play posterior posterior_of_likelihood behavior_posterior frequencies summarize provenance",
        "For those who have reports, likelihoods or a game in memory.",
    ),
    "What they return": (
        "Summary Inferred Obfuscated Estimated Verdict Comparison Advice Reproduction Extracted Frequencies Learned"
        " Provenance",
        "For annotations, and for what their fields mean; records with intervals are in `ps.metrics`.",
    ),
    "What they are made of": ("Scenario load_scenario Game Universe Behavior Adversary Mechanism Device", ""),
    "Where they run, what they tell, and how they fail": ("Local Dask Progress InputError PoolscopeError", ""),
}

SPACES = ("mechanisms", "popularity", "priors", "metrics", "figures")

HEAD = """# Public names

`import poolscope as ps`. Whatever is not here may change without a word. Each name's docstring has its parameters,
shapes and references (`help(ps.posterior)`). This page is made by `python docs/make_api.py`, and a test holds it to
the code. On the site the names follow with their docstrings and examples, and [commands](reference/commands.md) and
[words](reference/glossary.md) have pages of their own; [formats](formats.md) has the columns of every table.

```{toctree}
:hidden:

reference/commands
reference/verbs
reference/arrays
reference/results
reference/parts
reference/running
reference/mechanisms
reference/popularity
reference/priors
reference/metrics
reference/figures
reference/examples
reference/glossary
```
"""


def first_line(thing: object) -> str:
    """What a docstring says first, fit for a table."""
    return (inspect.getdoc(thing) or "").partition("\n")[0].replace("|", "\\|")


#: Parameters that stand for any others.
ANY = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)


def call(name: str, thing: object) -> str:
    """The name with its arguments, as far as a reader needs them; their types are in the docstring."""
    if not callable(thing) or getattr(thing, "_is_protocol", False):
        return name
    try:
        parameters = [p for p in inspect.signature(thing).parameters.values() if p.kind not in ANY]
    except (TypeError, ValueError):
        return name
    return f"{name}({', '.join(p.name if p.default is p.empty else p.name + '=' for p in parameters)})"


def rows(prefix: str, names: list[str], home: ModuleType) -> list[str]:
    """A table of names."""
    lines = ["| name | what it is |", "|---|---|"]
    for name in names:
        thing = getattr(home, name)
        lines.append(f"| `{prefix}{call(name, thing)}` | {first_line(thing)} |")
    return [*lines, ""]


def page() -> str:
    """The whole page."""
    lines = [HEAD]
    for title, (names, words) in GROUPS.items():
        lines += [f"## {title}", ""] + ([words, ""] if words else []) + rows("ps.", names.split(), ps)
    for space in SPACES:
        home = getattr(ps, space)
        # data and aliases are told of in the namespace's docstring
        things = {name: getattr(home, name) for name in home.__all__}
        documented = [name for name, thing in things.items() if inspect.isclass(thing) or inspect.isfunction(thing)]
        lines += [f"## ps.{space}", "", first_line(home), "", *rows(f"ps.{space}.", documented, home)]
    return "\n".join(lines)


if __name__ == "__main__":
    print(page(), end="")
