"""Prose of the README and the documentation: short sentences, the words of the style sheet, American spelling."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent

#: Pages whose text comes from elsewhere: docstrings, or files beside the documentation.
ELSEWHERE = {"api.md", "architecture.md", "changelog.md", "contributing.md", "security.md", "results/speed.md"}


def _documents():
    """Every page by its name: the documentation, and what lies beside it."""
    docs = ROOT / "docs"
    for path in sorted(docs.rglob("*.md")):
        name = path.relative_to(docs).as_posix()
        if name.split("/")[0] not in ("api", "_build", "_extra"):
            yield name, path
    for path in sorted(ROOT.glob("*.md")):
        yield path.name, path
    yield "benchmarks/README.md", ROOT / "benchmarks" / "README.md"


DOCUMENTS = dict(_documents())
PAGES = {name: path for name, path in DOCUMENTS.items() if name not in ELSEWHERE}

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

#: What has a sign in prose: 95% without a space, and ε by its symbol.
SPELLED = re.compile(r"\d\s%|\bepsilons?\b", re.IGNORECASE)


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


def lines(text):
    """The paragraphs, headings and rows of tables of a page."""
    outside = re.sub(r"(?ms)^```.*?^```$", "", text)
    return [*prose(text), *headings(text), *re.findall(r"(?m)^\|.*$", outside)]


def spelled(text):
    """What is spelled in a page though it has a sign; code, formulas and the targets of links aside."""
    for line in lines(text):
        shown = re.sub(r"`[^`]*`|\$[^$]*\$|\]\([^)]*\)", "", line)
        yield from (f"{match.group()!r} in {shown[:90]}" for match in SPELLED.finditer(shown))


def faults(name, text):
    """What the style sheet finds in a page, a line each."""
    found = [(length(sentence), sentence) for sentence in sentences(text)]
    yield from (f"{words} words: {sentence}" for words, sentence in found if words > LONGEST)
    mean = sum(words for words, _ in found) / max(len(found), 1)
    if mean > MEAN:
        yield f"{mean:.1f} words a sentence on average"
    for paragraph in lines(text):
        shown = re.sub(r"`[^`]*`", "", paragraph)
        for rule, kind in ((BANNED, "retired"), (BRITISH, "British"), (COMMIT, "commit")):
            yield from (f"{kind}: {match.group()!r} in {paragraph[:90]}" for match in rule.finditer(shown))
    for heading in headings(text):
        question = heading.endswith("?") and name not in ("faq.md", "rappor-questions.md")
        if heading.endswith((".", ":", ",")) or question or heading.split()[0] in ("So", "Why,", "And", "But"):
            yield f"heading: {heading}"


@pytest.mark.parametrize("name", sorted(PAGES))
def test_a_page_keeps_to_the_style_sheet(name):
    found = list(faults(name, PAGES[name].read_text()))
    assert not found, "\n".join(found)


@pytest.mark.parametrize("name", sorted(DOCUMENTS))
def test_a_page_has_signs_where_there_are_any(name):
    assert list(spelled(DOCUMENTS[name].read_text(encoding="utf-8"))) == []


def test_what_has_a_sign_is_found():
    assert len(list(spelled("# Epsilons\n\nAt epsilon 4, 95 % are.\n\n| 5 % | epsilon-LDP |\n"))) == 5
    assert not list(spelled("At ε = 4 (`epsilon`), [95%](a.md#epsilon) are: $epsilon$.\n"))


def test_percentages_in_docstrings_have_no_space():
    texts = {path: path.read_text(encoding="utf-8") for path in (ROOT / "src").rglob("*.py")}
    assert {path.name: found for path, text in texts.items() if (found := re.findall(r"\d %(?= |$)", text))} == {}


def test_faults_are_found():
    """A negative control: one fault of each kind, and none in a text without."""
    long = "word " * 26
    page = f"# Does it keep its promise?\n\nThe attacker is surely right. It normalises 95 % at 2daf2e2c. W{long}\n"
    found = list(faults("page.md", page))
    for start in ("26 words", "retired: 'surely'", "British: 'normalises'", "commit", "heading"):
        assert sum(fault.startswith(start) for fault in found) == 1, (start, found)
    good = (
        "# Colors of a model\n\nOne sentence with 95% and `told`. Another (see [it](a.md#told)).\n\n- An item\n- Two\n"
    )
    assert not list(faults("page.md", good))


def test_sentences_are_separated():
    page = "One has 3.5 words. Two ends here; it goes on. `code` begins three.\n\n- Four\n- Five e.g. is five\n"
    assert len(list(sentences(page))) == 5
