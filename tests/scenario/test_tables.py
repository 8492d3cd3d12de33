"""Every way in which a scenario can be wrong is one line: file, place, rule, value."""

import tomllib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from poolscope.core.errors import InputError, visible
from poolscope.scenario import scenario

UNIVERSE = "[universe]\nsize = 10\npools = { a = 2, b = 3 }\n"
MECHANISM = "[mechanism]\nkind = 'cms'\nepsilon = 4\n"
SMALLEST = UNIVERSE + MECHANISM
WEAK = "[[adversary]]\nname = 'weak'\npopularity = 'uniform'\n"

# TOML before a snippet that is wrong.
START = {
    "file": "",
    "universe": MECHANISM + "[universe]\n",
    "universe.pools": MECHANISM + "[universe]\nsize = 4\npools = ",
    "popularity": SMALLEST + "[popularity]\n",
    "mechanism": UNIVERSE + "[mechanism]\n",
    "users": SMALLEST + "[users]\n",
    "adversary": SMALLEST,
    "adversary[0]": SMALLEST + "[[adversary]]\nname = 'weak'\n",
    "adversary[0].prior": SMALLEST + WEAK + "[adversary.prior]\n",
    "attack": SMALLEST + "[attack]\n",
}

# What is wrong, and what is said: after a blank of the table itself, else of a key in it.
WRONG = {
    "file": [
        ("title = \n", "line 1: must be TOML: Invalid value"),
        ("title = 'x'\n[universe\n", "line 2: must be TOML: Expected ']'"),
        ("title = 'x'\n\ntitle = 'x'\n", "line 3: must be TOML: Cannot overwrite a value"),
        ("title = '''x\n\n", "line 3: must be TOML: Expected \"'''\""),
        (f"a = {'9' * 5000}", "line 1: must be TOML: Exceeds the limit"),
        (f"a = {'[' * 50_000}", "must not be nested that deeply"),
        ("", "universe: is missing"),
        (MECHANISM, "universe: is missing"),
        (UNIVERSE, "mechanism: is missing"),
        ("universe = 3\n" + MECHANISM, "universe: must be a table, got 3"),
        ("title = 3\n" + SMALLEST, "title: must be a string, got 3"),
        ("source = 3\n" + SMALLEST, "source: must be a string, got 3"),
        ("source = ''\n" + SMALLEST, "source: must not be empty"),
        ("historical = 'yes'\n" + SMALLEST, "historical: must be true or false, got 'yes'"),
        ("titel = 'x'\n" + SMALLEST, "titel: unknown key; did you mean 'title'?"),
        ("zzz = 1\n" + SMALLEST, "zzz: unknown key; known: title, source, historical, univ"),
        (SMALLEST + "[atack]", "atack: unknown key; did you mean 'attack'?"),
        (SMALLEST + '["two\\nlines"]', "two lines: unknown key"),
        (SMALLEST + f"[{'x' * 10**5}]", "xxxxxxx"),
    ],
    "universe": [
        ("", " must have size and pools, or objects"),
        ("size = 5", ".pools: is missing; a universe without a file of objects needs it"),
        ("pools = { a = 1, b = 1 }", ".size: is missing"),
        ("size = 5\nobjects = 'o.csv'", ".size: requires a universe without a file"),
        ("siz = 3", ".siz: unknown key; did you mean 'size'?"),
        ("size = 10.5\npools = {}", ".size: must be an integer, got 10.5"),
        ("size = 0\npools = { a = 1, b = 1 }", ".size: must be an integer from 1 to 100000000"),
        ("objects = ''", ".objects: must be a path inside the scenario's folder"),
        ("objects = '/o.csv'", ".objects: must be a path inside the scenario's folder"),
        ("objects = 'x/../../o.csv'", ".objects: must be a path inside the scenario's folder"),
    ],
    "universe.pools": [
        ("{ a = 2, b = 3 }", " must fit into the universe of 4 objects, got 5"),
        ("{ a = 2 }", " must be at least two, got ['a']; with one pool there is nothing to infer"),
        ("{}", " must be at least two, got []"),
        ("[2, 3]", " must be a table, got [2, 3]"),
        ("{ a = 2, b = 0 }", ".b: must have at least one object, got 0"),
        ("{ a = true, b = 1 }", ".a: must be an integer, got True"),
    ],
    "popularity": [
        ("", ".kind: is missing"),
        ("kind = 'zpf'", ".kind: must be 'uniform', 'zipf', 'random' or 'given', got 'zpf'"),
        ("kind = 'zipf'", ".exponent: is missing; kind 'zipf' needs it"),
        ("kind = 'zipf'\nexponent = -1", ".exponent: must be at least 0, got -1"),
        ("kind = 'zipf'\nexponent = nan", ".exponent: must be finite, got nan"),
        ("kind = 'random'\nexponent = 1", ".exponent: requires kind 'zipf', got 1.0"),
        ("kind = 'random'\nseed = -1", ".seed: must be at least 0, got -1"),
        ("kind = 'uniform'\nseed = 1", ".seed: requires kind 'random', got 1"),
        ("kind = 'given'", ".kind: must not be 'given'; only a file of objects"),
    ],
    "mechanism": [
        ("epsilon = 1", ".kind: is missing"),
        ("kind = ''", ".kind: must not be empty, got ''"),
        ("kind = 'cms'\nepsilon = -1", ".epsilon: must be positive, got -1"),
        ("kind = 'cms'\nepsilon = 0", ".epsilon: must be positive, got 0"),
        ("kind = 'cms'\nepsilon = nan", ".epsilon: must be positive, got nan"),
        ("kind = 'cms'\nepsilon = '4'", ".epsilon: must be a number, got '4'"),
        ("kind = 'cms'\nepsilon = true", ".epsilon: must be a number, got True"),
        ("kind = 'cms'\nm = [1, 2]", ".m: must be a number or a string, got [1, 2]"),
    ],
    "users": [
        ("count = 0", ".count: must be at least 1, got 0"),
        ("count = 1.0", ".count: must be an integer, got 1.0"),
        ("cout = 1", ".cout: unknown key; did you mean 'count'?"),
        ("sigma = -0.1", ".sigma: must be at least 0, got -0.1"),
        ("sigma = inf", ".sigma: must be finite, got inf"),
        ("count = 1\ntraces = 't.csv'", ".count: requires synthetic users, not traces"),
        ("sigma = 1\ntraces = 't.csv'", ".sigma: requires synthetic users, not traces"),
        ("traces = '../t.csv'", ".traces: must be a path inside the scenario's folder"),
        ("behavior = { none = 0.2 }", ".behavior.none: is a key of an adversary's prior; write [users] none"),
        ("edges = { x = { none = 0.2 } }", ".edges.x.none: is a key of an adversary's prior"),
        ("behavior = { pools = 'fitted' }", ".behavior.pools: must not be fitted, which is of an adversary's"),
        ("edges = { x = { interest = 'fitted' } }", ".edges.x.interest: must not be fitted"),
    ],
    "adversary": [
        ("[adversary]\nname = 'x'", " must be a list, got {'name': 'x'}"),
        (WEAK + WEAK, "[1].name: must be unique, got 'weak'"),
        (WEAK + "[[adversary]]\nname = ''", "[1].name: must not be empty, got ''"),
        (WEAK.replace("weak", "non-private"), "[0].name: is the name of the game without a mech"),
    ],
    "adversary[0]": [
        ("", ".popularity: is missing"),
        ("popularity = 'true'\nlinks = { a = 0.8 }", ".links: requires [[collection]]"),
        ("popularity = 'smart'", ".popularity: must be 'uniform', 'estimated', 'true' or 'given'"),
        ("popularity = 'given'", ".popularity: must have a file to be 'given'"),
        ("popularity = 'given'\nfile = '/x'", ".file: must be a path inside"),
        ("popularity = 'true'\nfile = 'x'", ".file: requires popularity 'given', got 'x'"),
        ("popularity = 'estimated'\nestimate_from = 0", ".estimate_from: must be at least 1, got 0"),
        ("popularity = 'uniform'\nestimate_from = 3", ".estimate_from: requires popularity 'estimated'"),
        ("popularity = 'true'\nmethod = 'ibu'", ".method: requires popularity 'estimated'"),
        ("popularity = 'estimated'\nmethod = 'best'", ".method: must be 'linear', 'regression', 'ridge' or 'ibu'"),
        ("estimate_form = 3", ".estimate_form: unknown key; did you mean 'estimate_from'?"),
    ],
    "adversary[0].prior": [
        ("interset = 'uniform'", ".interset: unknown key; did you mean 'interest'?"),
        ("interest = 'beta'", ".interest: must be 'uniform' or 'fitted' or a table, got 'beta'"),
        ("interest = { bta = [1, 1] }", ".interest.bta: unknown key; did you mean 'beta'?"),
        ("interest = { beta = [1] }", ".interest.beta[1]: is missing"),
        ("interest = { beta = [1, 2, 3] }", ".interest.beta: must have at most 2 entries"),
        ("polarization = { beta = [1, 0] }", ".polarization.beta[1]: must be positive, got 0"),
        ("polarization = { beta = [inf, 1] }", ".polarization.beta[0]: must be finite, got inf"),
        ("pools = 'mine'", ".pools: must be 'uniform', 'popularity' or 'fitted' or a table, got 'mine'"),
        ("pools = { a = 1 }", ".pools.b: is missing"),
        ("pools = { a = 1, bb = 1 }", ".pools.bb: unknown pool; did you mean 'b'?"),
        ("pools = { a = -1, b = 1 }", ".pools.a: must be at least 0, got -1"),
        ("pools = { a = 0, b = 0 }", ".pools: must have a weight above 0, got {"),
    ],
    "attack": [
        ("", ".observations: is missing"),
        ("observations = []", ".observations: must not be empty, got []"),
        ("observations = 7", ".observations: must be a list, got 7"),
        ("observations = [7, 7]", ".observations: must be increasing, got [7, 7]"),
        ("observations = [7, 3]", ".observations: must be increasing, got [7, 3]"),
        ("observations = [0, 7]", ".observations[0]: must be at least 1, got 0"),
        ("observations = [1, 2.5]", ".observations[1]: must be an integer, got 2.5"),
        ("observations = [1]\nthreshold = 2", ".threshold: must be at most 1, got 2"),
        ("observations = [1]\nthreshold = -1", ".threshold: must be at least 0, got -1"),
        ("observations = [1]\nthreshold = nan", ".threshold: must be at most 1, got nan"),
        ("observations = [1]\nnon_private = 1", ".non_private: must be true or false, got 1"),
    ],
}
CASES = [(place, *case) for place, cases in WRONG.items() for case in cases]


@pytest.mark.parametrize(("place", "snippet", "message"), CASES, ids=[f"{p}-{m[:40]}" for p, _, m in CASES])
def test_a_wrong_scenario_is_one_line(tmp_path, place, snippet, message):
    path = tmp_path / "scenario.toml"
    path.write_text(START[place] + snippet)
    with pytest.raises(InputError) as caught:
        scenario.load_scenario(path)
    line = str(caught.value)
    if place != "file":
        message = f"{place}:{message}" if message.startswith(" ") else place + message
    assert line.startswith(f"{path}: {message}")
    assert line.isprintable()
    assert len(line) < 800


values = st.recursive(
    st.booleans() | st.integers() | st.floats() | st.text(max_size=5) | st.dates(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=4,
)
DOCUMENT = tomllib.loads(scenario.builtin_text("apple-emojis"))
KEYS = [(name, key) for name, table in DOCUMENT.items() if isinstance(table, dict) for key in table]


@given(st.sampled_from(KEYS), values)
def test_any_value_of_any_key_is_accepted_or_explained(place, value):
    table, key = place
    document = {**DOCUMENT, table: {**DOCUMENT[table], key: value}}
    try:
        scenario.Scenario.model_validate(document)
        line = ""
    except InputError as error:
        line = str(error)
    # characters that this Python does not know yet are left as they are: they may be new emojis
    assert visible(line) == line
    assert line.startswith(f"{table}.") or not line
