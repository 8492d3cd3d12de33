"""The explorer's server: whom it answers, and what it says."""

import json
import re
import signal
import subprocess
import sys
import tomllib
from pathlib import Path
from types import SimpleNamespace
from urllib.parse import quote, urlencode

import pytest
from cases.command_line import poolscope
from cases.explorer import HOSTILE, SMALL, events, fetched, query, serving, small
from cases.platforms import posix_only

import poolscope as ps
from poolscope.core.errors import InputError
from poolscope.scenario.scenario import parse
from poolscope.workflows.audit.audit import audit

pytest.importorskip("uvicorn", reason="uvicorn is not installed: pip install '.[test]'")

from starlette.requests import Request

from poolscope.explore import handlers, server
from poolscope.explore.page import MAX_COMPARED
from poolscope.explore.server import explore, explorer_of, split_link
from poolscope.explore.settings import Setting

START = {"scenario": "small", "changes": {}, "seed": 3}


@pytest.fixture(scope="module")
def address(tmp_path_factory):
    explorer = explorer_of(str(small(tmp_path_factory.mktemp("explorer"))), 3)
    with serving(explorer) as found:
        yield found


def test_the_page_comes_with_a_policy_that_lets_nothing_else_in(address):
    status, headers, text = fetched(address)
    assert status == 200
    policy = headers["Content-Security-Policy"]
    assert "default-src 'none'" in policy
    assert "script-src 'self';" in policy
    assert "unsafe-eval" not in policy
    assert "http" not in policy
    assert HOSTILE[0] not in text


def test_a_name_does_not_end_what_the_page_starts_from(tmp_path):
    """What a script holds is no markup: nothing in it is escaped by the template."""
    name = "<!--<script>caught=1"
    (tmp_path / f"{name}.toml").write_text(SMALL, encoding="utf-8")
    with serving(explorer_of(str(tmp_path / f"{name}.toml"), 3)) as found:
        text = fetched(found)[2]
    start = re.search(r'<script type="application/json" id="start">(.*?)</script>', text, re.DOTALL)[1]
    assert "<" not in start
    assert json.loads(start)["scenario"] == name


@pytest.mark.parametrize(
    ("where", "headers"),
    [
        ("/", {}),
        ("/another-token/", {}),
        ("/a-token", {}),
        ("/a-token/", {"Host": "attacker.example"}),
        ("/a-token/", {"Host": "127.0.0.1"}),
        ("/a-token/", {"Origin": "http://attacker.example"}),
        ("/a-token/", {"Origin": "null"}),
        ("/a-token/people", {"Sec-Fetch-Site": "cross-site"}),
        ("/a-token/people", {"Sec-Fetch-Site": "same-site"}),
    ],
)
def test_others_are_refused(address, where, headers):
    base = address.removesuffix("/a-token/")
    assert fetched(base + where, headers)[0] == 403


def test_its_own_origin_is_let_in(address):
    assert fetched(address, {"Origin": address.removesuffix("/a-token/")})[0] == 200


def test_answers_are_the_librarys_for_the_same_seed(address, monkeypatch):
    """After every crowd: the numbers are those of `play` and `summarize` for as many users of the scenario it shows."""
    monkeypatch.setattr("poolscope.explore.answers.SAMPLE_SIZES", (48, 256))
    setting = START | {"changes": {"mechanism.epsilon": 2.5, "n": 9, "devices.cap": 12}}
    found, ended = events(fetched(address + query("answers", setting))[2])
    assert ended
    facts = [answer for answer in found if "results" in answer]
    assert [answer["users"] for answer in facts] == [48, 48, 256]
    assert facts[0]["waiting"] == [HOSTILE[0]]
    assert len(facts) == sum("pictures" in answer for answer in found)
    scenario = parse(fetched(address + query("toml", setting))[2], name="kept")
    game = scenario.game(3)
    for answer in facts[1:]:
        records = ps.summarize(ps.play(game, answer["users"], 3), game, 3)
        assert answer["results"] == [record.as_json() for record in records if record.n == 9]
    # the adversary who was there at once has seen the same
    first = {record["adversary"]: record for record in facts[0]["results"]}
    assert first["weak"] == next(record for record in facts[1]["results"] if record["adversary"] == "weak")


def test_the_files_that_a_scenario_names_are_told(address, tmp_path):
    assert json.loads(fetched(address + "controls?scenario=small")[2])["files"] == []
    (tmp_path / "objects.csv").write_text(
        "object,pool,popularity\n" + "".join(f"{i},{'ab'[i % 2]},1\n" for i in range(6))
    )
    universe = '[universe]\nobjects = "objects.csv"\n[popularity]\nkind = "given"\n'
    (tmp_path / "named.toml").write_text(universe + SMALL.partition("exponent = 1.0\n")[2])
    with serving(explorer_of(str(tmp_path / "named.toml"), 3)) as other:
        assert json.loads(fetched(other + "controls?scenario=named")[2])["files"] == ["objects.csv"]


def test_the_toml_has_what_was_changed_and_nothing_else(address):
    same = fetched(address + query("toml", START))[2]
    assert tomllib.loads(same) == tomllib.loads(SMALL)
    setting = START | {"changes": {"mechanism.kind": "oue", "devices.rotate_after": 4, "popularity.exponent": 0.5}}
    tables = tomllib.loads(fetched(address + query("toml", setting))[2])
    assert tables["mechanism"] == {"kind": "oue", "epsilon": 3.0}
    assert tables["devices"] == {"rotate_after": 4}
    assert tables["popularity"]["exponent"] == 0.5


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"universe.objects": "/etc/passwd"}, "unknown key"),
        ({"mechanism.epsilon": -1}, "epsilon"),
        ({"devices.cap": "many"}, "must be an integer"),
        ({"n": 0}, "must be a whole number from 1"),
        ({"mechanism.kind": "no-such"}, "must be a known mechanism"),
        ({"mechanism.kind": ""}, "must be a known mechanism"),
        ({"mechanism.kind": 3}, "mechanism.kind: must be a text, got 3"),
        ({"mechanism.epsilon": "x"}, "mechanism.epsilon: must be a number, got 'x'"),
        ({"mechanism.epsilon": 10**400}, "mechanism.epsilon: must be a number, got 1000"),
        ({"mechanism.epsilon": 0}, "mechanism.epsilon: must be positive"),
    ],
)
def test_a_wrong_setting_is_told_in_a_line(address, changes, words):
    status, _, text = fetched(address + query("toml", START | {"changes": changes}))
    assert status == 400
    assert words in json.loads(text)["error"]
    assert "\n" not in json.loads(text)["error"]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "[" * 9000,
        "a" * 30_000,
        '{"scenario": 3}',
        '{"scenario": "../x.toml"}',
        '{"scenario": "small", "seed": 0.5}',
        '{"scenario": "small", "changes": [1]}',
    ],
)
def test_an_address_may_hold_anything(address, text):
    status, _, said = fetched(f"{address}toml?{urlencode({'setting': text})}")
    assert status == 400
    assert json.loads(said)["error"]


@pytest.mark.slow
def test_a_comparison_plays_the_same_users(address):
    settings = [START, START | {"changes": {"mechanism.epsilon": 1}}]
    found, ended = events(fetched(address + query("comparison", *settings))[2])
    assert ended
    assert [(row["place"], row["users"]) for row in found[:4]] == [(0, 48), (1, 48), (0, 256), (1, 256)]
    assert "ε = 1" in found[1]["name"]
    assert fetched(address + query("comparison", *[START] * 5))[0] == 400


@pytest.mark.slow
def test_options_are_streamed_and_a_wrong_target_is_refused(address):
    setting = START | {"changes": {"n": 5}}
    found, ended = events(fetched(address + query("options", setting, target=0.05))[2])
    assert ended
    assert [one["pending"] for one in found[:3]] == sorted((one["pending"] for one in found[:3]), reverse=True)
    assert found[-1]["pending"] == 0
    assert found[-1]["rows"][0]["users"] == 1000
    assert found[-1]["table"]["blocks"][0]["rows"][0]["head"] == "grr (this setting)"
    for query_parts in ({"target": "x"}, {}):
        assert fetched(address + query("options", setting, **query_parts))[0] == 400
    for query_parts in ({"target": 2}, {"target": 0.05, "same": "x"}):
        assert "event: wrong" in fetched(address + query("options", setting, **query_parts))[2]


@pytest.mark.parametrize(
    ("what", "parts"),
    [
        (None, (None, "")),
        ("small.toml", ("small.toml", "")),
        ("#%7B%7D", (None, "%7B%7D")),
        ("apple-emojis#%7B%22seed%22%3A4%7D", ("apple-emojis", "%7B%22seed%22%3A4%7D")),
    ],
)
def test_a_link_is_what_to_open_and_a_state(what, parts):
    assert split_link(what) == parts


def test_a_file_with_a_number_sign_is_a_file(tmp_path):
    path = tmp_path / "a#b.toml"
    path.write_text(SMALL, encoding="utf-8")
    assert split_link(str(path)) == (str(path), "")


def test_the_address_of_a_link_carries_its_state(monkeypatch):
    monkeypatch.setattr(server, "_warm", lambda explorer: None)
    monkeypatch.setattr(server.Server, "run", lambda running, sockets: running._ready())
    addresses = []
    explore("apple-emojis#" + quote('{"seed":4}'), browser=False, opened=addresses.append)
    explore('apple-emojis#{"seed":4}', browser=False, opened=addresses.append)
    assert [address.partition("/#")[2] for address in addresses] == [quote('{"seed":4}')] * 2


def test_a_story_is_told_by_any_adversary(address):
    for adversary in ("weak", HOSTILE[0]):
        _, _, text = fetched(address + query("story", START, user=4, adversary=adversary))
        story = json.loads(text)
        assert story["adversary"] == adversary
        assert len(story["steps"]) == 20
    assert fetched(address + query("story", START, user="x"))[0] == 400
    assert fetched(address + query("story", START, user=4, adversary="nobody"))[0] == 400
    assert "setting: is missing" in fetched(f"{address}story?user=4")[2]


def test_without_what_is_asked_for_there_is_a_line(tmp_path):
    """A scenario without an adversary or an attack is opened, and says what it lacks."""
    head, _, attack = small(tmp_path).read_text().partition("[[adversary]]")
    for text, words in (
        (head + "[attack]" + attack.partition("[attack]")[2], "there is no adversary who sees reports"),
        (head, r"must have a table \[attack\]"),
    ):
        (tmp_path / "bare.toml").write_text(text)
        explorer = explorer_of(str(tmp_path / "bare.toml"), 3)
        with pytest.raises(InputError, match=words):
            handlers._user_history(explorer, asked(query("story", {"scenario": "bare"}, user=1)))
        with pytest.raises(InputError, match="neither a run nor posteriors are open"):
            handlers._people(explorer, asked("people"))
        explorer.close()


def test_a_scenario_of_tuples_is_refused():
    with pytest.raises(InputError, match=r"rs-fd\.toml: must not have a table \[multidimensional\]"):
        explorer_of(str(Path(__file__).parents[2] / "examples" / "rs-fd.toml"), 3)


def test_a_run_lists_its_surest_users_and_tells_their_stories(tmp_path):
    """The story of a user of a run, played again, ends in the confidence that the run has kept."""
    scenario = ps.load_scenario(small(tmp_path))
    audit(scenario, tmp_path / "run", users=60, seed=5)
    with serving(explorer_of(str(tmp_path / "run"), 0)) as address:
        people = json.loads(fetched(address + "people")[2])
        assert people["users"] == 60
        assert people["scenario"] == "small"
        rows = [dict(zip(people["columns"], row, strict=True)) for row in people["rows"]]
        place, confident = next((i, row) for i, row in enumerate(rows) if row["adversary"] == "weak")
        assert confident["confidence"] == max(row["confidence"] for row in rows if row["adversary"] == "weak")
        growth = json.loads(fetched(f"{address}growth?row={place}")[2])["rows"]
        assert [row["n"] for row in growth if row["adversary"] == "weak"] == [5, 20]
        setting = {"scenario": "small", "changes": {"n": 20}, "seed": 5}
        story = json.loads(fetched(address + query("story", setting, user=confident["user"], adversary="weak"))[2])
        assert max(story["steps"][-1]["posterior"]) == pytest.approx(confident["confidence"], abs=1e-12)
        assert story["preferred"] == confident["pool"]
        assert fetched(f"{address}growth?row=10000")[0] == 400


def test_posteriors_list_their_users(tmp_path):
    path = tmp_path / "posteriors.csv"
    lines = [f"{name},weak,{n},a,{0.5 + n / 100}" for name in ("ann", "<b>bob") for n in (5, 20)]
    path.write_text("\n".join(["user,adversary,n,guess,confidence", *lines]) + "\n")
    with serving(explorer_of(str(path), 0)) as address:
        people = json.loads(fetched(address + "people")[2])
        assert people["scenario"] is None
        assert [row[:3] for row in people["rows"]] == [["ann", "weak", 20], ["<b>bob", "weak", 20]]
        growth = json.loads(fetched(f"{address}growth?row=1")[2])["rows"]
        assert [(row["n"], row["confidence"]) for row in growth] == [(5, 0.55), (20, 0.7)]


def test_without_the_extra_a_line_says_what_to_install(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    # imported again, and then taken away again
    monkeypatch.delitem(sys.modules, "poolscope.explore.server")
    done = poolscope("explore", "--no-browser", cwd=tmp_path)
    assert done.returncode == 1
    assert done.stderr.strip() == (
        "poolscope: the explorer needs starlette and uvicorn; install them with: pip install 'poolscope[explore]'"
    )


def test_the_command_prints_its_address_and_its_end(monkeypatch, tmp_path):
    def interrupted(running, sockets):
        running._ready()
        raise KeyboardInterrupt

    monkeypatch.setattr(server, "_warm", lambda explorer: None)
    monkeypatch.setattr(server.Server, "run", interrupted)
    done = poolscope("explore", "--no-browser", cwd=tmp_path)
    assert re.fullmatch(r"http://127\.0\.0\.1:\d+/\S{32}/\nPress Ctrl-C to stop\.\n", done.stdout)
    assert (done.returncode, done.stderr) == (0, "poolscope: explorer stopped\n")


@posix_only
@pytest.mark.slow
def test_ctrl_c_ends_it_with_a_line():
    code = (
        "import sys, signal; sys.argv = ['poolscope', 'explore', '--no-browser'];"
        "signal.signal(signal.SIGINT, signal.default_int_handler);"
        "from poolscope.explore import server as serving; serving._warm = lambda explorer: None;"
        "from poolscope.cli.commands import main; main()"
    )
    process = subprocess.Popen(
        [sys.executable, "-u", "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout.readline().startswith("http://127.0.0.1:")
    assert process.stdout.readline() == "Press Ctrl-C to stop.\n"
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=60)
    assert (process.returncode, said.strip()) == (0, "poolscope: explorer stopped")


def test_a_port_that_is_taken_is_told(address):
    with pytest.raises(InputError, match="port: cannot be listened on"):
        explore(port=int(address.split(":")[2].split("/")[0]), browser=False)


def test_it_listens_on_this_machine_only():
    with server._listening(0) as sock:
        assert sock.getsockname()[0] == "127.0.0.1"


def test_each_run_has_a_long_token(monkeypatch):
    """At least 128 bits, and another one each time."""
    monkeypatch.setattr(server, "_warm", lambda explorer: None)
    monkeypatch.setattr(server.Server, "run", lambda running, sockets: running._ready())
    addresses = []
    for _ in range(2):
        explore(browser=False, opened=addresses.append)
    one, other = (address.split("/")[3] for address in addresses)
    assert one != other
    assert len(one) == len(other) >= 22


def test_the_command_of_a_setting(tmp_path):
    """A changed scenario is another file than the one that was opened."""
    path = small(tmp_path)
    explorer = explorer_of(str(path), 3)
    plain = handlers._command(explorer, Setting(scenario="small", seed=3), 100)
    assert plain == f"poolscope audit {path} --users 100 --seed 3"
    changed = handlers._command(explorer, Setting(scenario="small", changes={"epsilon": 1.0}, seed=4), 50)
    assert changed == "poolscope audit small-explored.toml --users 50 --seed 4"
    explorer.close()


def asked(text):
    """The request of the part of an address."""
    return Request({"type": "http", "headers": [], "query_string": text.partition("?")[2].encode()})


def test_as_many_settings_are_compared_as_stated():
    opened = SimpleNamespace(streams=SimpleNamespace(open=lambda found: "opened"))
    assert handlers._comparison(opened, asked(query("comparison", *[START] * MAX_COMPARED))) == "opened"
    with pytest.raises(InputError, match=f"setting: must be at most {MAX_COMPARED}, got {MAX_COMPARED + 1}"):
        handlers._comparison(opened, asked(query("comparison", *[START] * (MAX_COMPARED + 1))))


def test_there_is_no_row_after_the_last(tmp_path):
    path = tmp_path / "posteriors.csv"
    path.write_text("user,adversary,n,guess,confidence\nann,weak,5,a,0.5\nbob,weak,5,a,0.6\n")
    explorer = explorer_of(str(path), 0)
    assert handlers._growth(explorer, asked("growth?row=1")).status_code == 200
    for row in ("2", "-1", "x"):
        with pytest.raises(InputError, match="row: there is no such row"):
            handlers._growth(explorer, asked(f"growth?row={row}"))
    explorer.close()
