"""Names use the field's words: retired ones are no identifiers, keys, columns, options or headings."""

import io
import re
import tokenize
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]

#: Words without another honest use, as whole identifiers. What each became stands in docs/architecture.md or nowhere:
#: nothing was released under these names.
RETIRED = re.compile(
    r"told|lie|settle|hush|hushed|crowd|crowds|Crowd|room|Room|Countable|Stated|yes_or_no|log_rarity|log_factor|Views"
    r"|Sending|Sent|Keeping|Kept\w+|kept_\w+|OnFresh|OnKept|attack_on|begun|gone|behave|_dealt|Judged|law|laws|log_law"
    r"|uncounted|Aside|keep_somewhere|looked_at|knows_memory|epsilon_again|epsilon_infinity|epsilon_first"
    r"|[Bb]ehaviour\w*|summarise\w*|normalise\w*|Memoised|auc|auc_low|auc_high|sure_\d+|precision_when_sure"
    r"|reports_to_expose_\d+|most_right|bayes_security_least|confidence_error\w*|calibration_error\w*|roc_area"
    r"|epsilon_in_time|shuffled_epsilon|in_plain_words|[Tt]rackability|densities|most_\w+|least_\w+|MOST\w*|LEAST\w*"
)

#: Names of libraries.
FOREIGN = {"most_common"}

#: Options of commands that have other names now.
OPTIONS = re.compile(r"--(exposed|error|join|joined|links|truth|page)\b(?!-)")

PYTHON = sorted(path for folder in ("src", "tests", "benchmarks", "docs") for path in (ROOT / folder).rglob("*.py"))
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


#: A retired word anywhere in a text, in prose too: what has none needs no closer look.
SUSPECT = re.compile(rf"(?<!\w)(?:{RETIRED.pattern})(?!\w)")


def retired(text):
    """Identifiers of a Python text, and strings that are one word, as keys and columns are."""
    if not SUSPECT.search(text):
        return
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        name = token.string if token.type == tokenize.NAME else None
        if token.type == tokenize.STRING:
            quoted = re.fullmatch(r"[\"'](\w+)[\"']", token.string)
            name = quoted and quoted[1]
        if name and name not in FOREIGN and RETIRED.fullmatch(name):
            yield f"{token.start[0]}: {name}"


@pytest.mark.parametrize("folder", ["src", "tests", "benchmarks", "docs"])
def test_no_name_is_retired(folder):
    found = {str(path.relative_to(ROOT)): list(retired(path.read_text())) for path in PYTHON if folder in path.parts}
    assert {path: names for path, names in found.items() if names and path != "tests/test_vocabulary.py"} == {}


def test_no_key_option_or_heading_is_retired():
    for path in [*PAGES, *sorted((ROOT / "src").rglob("*.toml"))]:
        text = path.read_text()
        keys = re.findall(r"(?m)^(memory|again|sample|window|knows_memory|behaviour)\s*=", text)
        assert not keys, f"{path.name}: {keys}"
        assert not OPTIONS.search(text), f"{path.name}: {OPTIONS.search(text)}"
        pages = re.sub(r"(?ms)^```.*?^```", "", text) if path.suffix == ".md" else ""
        for heading in re.findall(r"(?m)^#+ (.*)$", pages):
            assert not set(re.findall(r"\w+", heading)) & {"told", "kept", "crowd", "hush"}, f"{path.name}: {heading}"


@pytest.mark.parametrize("text", ["told = 1", "x.kept_by(y)", "row['sure_90']", "def behaviour(): pass", "MOST = 3"])
def test_a_retired_name_is_found(text):
    assert list(retired(text))


def test_other_words_are_free():
    assert not list(retired("kept, mostly, lies = law_of, told_us, Counter(x).most_common()"))
