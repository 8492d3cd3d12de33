"""Prose of the README and the documentation: short sentences, the words of the style sheet, American spelling."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent

#: Pages whose text comes from elsewhere: docstrings, or files beside the documentation.
ELSEWHERE = {"api.md", "architecture.md", "changelog.md", "contributing.md", "security.md", "results/speed.md"}


def _pages():
    docs = ROOT / "docs"
    for path in sorted(docs.rglob("*.md")):
        name = path.relative_to(docs).as_posix()
        if name not in ELSEWHERE and name.split("/")[0] not in ("api", "_build", "_extra"):
            yield name, path
    for name in ("README.md", "SECURITY.md", "benchmarks/README.md"):
        yield name, ROOT / name


PAGES = dict(_pages())

#: Words in a sentence, at most, and on average over a page.
LONGEST, MEAN = 25, 16.0

#: Phrases that the style sheet retires, and what belongs into the changelog only.
BANNED = re.compile(
    r"\b(told|hangs? on|held against|so many|anew|surely|whoever|(?:gives?|gave|given) away|mended|honest|serves"
    r"|kept answers?|by chance|on a laptop|reckon(?:s|ed)? with|hang together|crowds?|was before|used to be|law of)\b",
    re.IGNORECASE,
)

BRITISH = re.compile(
    r"\b(\w*behaviours?|colou?rs?(?<!color)(?<!colors)|favou?r\w*(?<!favor)(?<!favors)(?<!favored)(?<!favorite)"
    r"|neighbou?rs?(?<!neighbor)(?<!neighbors)|centres?|grey|licence|modelling|labelled|cancell(?:ed|ing)|towards"
    r"|(?:normal|summar|optim|minim|maxim|random|pseudonym|recogn|general|initial|util)is(?:e|es|ed|ing|ation)"
    r"|analys(?:e|ed|es(?= )|ing)(?<!analyses))\b",
    re.IGNORECASE,
)

COMMIT = re.compile(r"\b(?=[0-9a-f]*\d)(?=[0-9a-f]*[a-f])[0-9a-f]{7,40}\b")

SPACED_PERCENT = re.compile(r"\d\s%")


def prose(text):
    """The paragraphs and list items of a page, without code, tables, formulas and headings; code words become one."""
    text = re.sub(r"(?ms)^```.*?^```$", "\n", text)
    text = re.sub(r"(?s)\$\$.*?\$\$", "\n", text)
    text = re.sub(r"(?m)^(<!--.*-->|:{3,}.*|:\w+:.*|#+ .*|\|.*)$", "\n", text)
    text = re.sub(r"!\[[^\]]*\]\([^)]*\)", "\n", text)
    text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", text)
    text = re.sub(r"`[^`]*`|\$[^$]*\$", "code", text)
    text = re.sub(r"[*_]{1,2}(?=\S)|(?<=\S)[*_]{1,2}", "", text)
    text = re.sub(r"(?m)^\s*(?:[-*]|\d+\.) ", "\n\n", text)
    return [" ".join(part.split()) for part in re.split(r"\n\s*\n", text) if part.strip()]


def sentences(text):
    """The sentences of a page; a paragraph ends one. A number, an initial or an abbreviation does not."""
    for part in prose(text):
        yield from re.split(r"(?<!\b[A-Z])(?<!et al)[.!?][)\"”]?\s+(?=[A-Z0-9“\"(]|code|poolscope|ldp-)", part)


def length(sentence):
    return sum(bool(re.search(r"\w", word)) for word in sentence.split())


def headings(text):
    return re.findall(r"(?m)^#+ (.*)$", re.sub(r"(?ms)^```.*?^```$", "", text))


def faults(name, text):
    """What the style sheet finds in a page, a line each."""
    found = [(length(sentence), sentence) for sentence in sentences(text)]
    yield from (f"{words} words: {sentence}" for words, sentence in found if words > LONGEST)
    mean = sum(words for words, _ in found) / max(len(found), 1)
    if mean > MEAN:
        yield f"{mean:.1f} words a sentence on average"
    outside = re.sub(r"(?ms)^```.*?^```$", "", text)
    for paragraph in [*prose(text), *headings(text), *re.findall(r"(?m)^\|.*$", outside)]:
        shown = re.sub(r"`[^`]*`", "", paragraph)
        for rule, kind in ((BANNED, "retired"), (BRITISH, "British"), (COMMIT, "commit")):
            yield from (f"{kind}: {match.group()!r} in {paragraph[:90]}" for match in rule.finditer(shown))
    for paragraph in prose(text):
        yield from (f"space before %: {paragraph[:90]}" for _ in SPACED_PERCENT.finditer(paragraph))
    for heading in headings(text):
        question = heading.endswith("?") and name not in ("faq.md", "rappor-questions.md")
        if heading.endswith((".", ":", ",")) or question or heading.split()[0] in ("So", "Why,", "And", "But"):
            yield f"heading: {heading}"


@pytest.mark.parametrize("name", sorted(PAGES))
def test_a_page_keeps_to_the_style_sheet(name):
    found = list(faults(name, PAGES[name].read_text()))
    assert not found, "\n".join(found)


def test_faults_are_found():
    """A negative control: one fault of each kind, and none in a text without."""
    long = "word " * 26
    page = f"# Does it keep its promise?\n\nThe attacker is surely right. It normalises 95 % at 2daf2e2c. W{long}\n"
    found = list(faults("page.md", page))
    for start in ("26 words", "retired: 'surely'", "British: 'normalises'", "commit", "space before %", "heading"):
        assert sum(fault.startswith(start) for fault in found) == 1, (start, found)
    good = (
        "# Colors of a model\n\nOne sentence with 95% and `told`. Another (see [it](a.md#told)).\n\n- An item\n- Two\n"
    )
    assert not list(faults("page.md", good))


def test_sentences_are_separated():
    page = "One has 3.5 words. Two ends here; it goes on. `code` begins three.\n\n- Four\n- Five e.g. is five\n"
    assert len(list(sentences(page))) == 5
