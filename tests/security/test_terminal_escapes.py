"""Threat: session names, model names, file names and messages out of imported data hold terminal escapes, direction
overrides, invisible characters, line ends or markup. Printed raw, they move the cursor, set the window title, write to
the clipboard, forge lines of our own output, or show a person something other than what is there.
"""

import json
import os
import pty
import re
import shutil
import subprocess
import sys
import unicodedata
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.cli.calling import called, list_command_names
from tests.fake.words import refusal
from tests.integrations.provider import KEY, run_provider
from tests.scale import scaled
from tests.security.archives import recorded, write_archive
from tests.security.project import DEADLINE, surroundings
from tests.tui.stage import on_stage, played
from tidegate.core.edits import Replace
from tidegate.core.events import Event, NoteAdded, UsageReported, ViewEdited
from tidegate.core.messages import Text, user_message
from tidegate.core.text.terminal_text import clean_line, clean_text, escape_controls, strip_controls
from tidegate.datafolder.data_folder import DataFolder
from tidegate.proof.session_generator import generate_session
from tidegate.terminal.output import guard_streams, make_console

FORGED = "FORGED-LINE"
HOSTILE = (
    "a\x1b[2J\x1b]0;title\x07\x1b]52;c;ZXZpbA==\x1b\\\x9b5A\x90dcs\x9c\x07\x08\x7f\x85\u2028"
    f"\r\u202egnp\u2066x\u2069\u200b\ufeff\u2060\U000e0041\U000e0042\u3164b\n{FORGED} [red]c[/red]"
)
NAME = f"session {HOSTILE}"
FILE = HOSTILE.replace("/", "\\")
IN_YAML = "".join(each for each in HOSTILE if each < "\U00010000")
"""JSON writes the others as pairs, which is not YAML."""
CLEAN = re.compile(r"[\t\n\x20-\x7e]*")


def controls_in(text: str) -> list[str]:
    """What may not reach a terminal, told by the tables of Unicode and not by the code under test."""
    invisible = "\u115f\u1160\u3164\uffa0\u2028\u2029"
    return [
        f"{ord(each):04x}"
        for each in text
        if each not in "\n\t" and (unicodedata.category(each) in ("Cc", "Cf", "Cs") or each in invisible)
    ]


def assert_harmless(done: subprocess.CompletedProcess[str], *, content: bool = False) -> None:
    """`content`: messages are printed, and these may have lines."""
    assert "internal error" not in done.stderr, done.stderr
    for stream in (done.stdout, done.stderr):
        assert controls_in(stream) == [], stream
        forged = [line for line in stream.splitlines() if line.lstrip().startswith(FORGED)]
        assert content or not forged, stream


@pytest.fixture(scope="module")
def imported(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a data folder into which a hostile archive was imported, recordings, and a configuration."""
    folder = tmp_path_factory.mktemp("hostile")
    events = recorded(
        user_message(HOSTILE),
        {"role": "assistant", "content": f"answer {HOSTILE}"},
        user_message("and more"),
        model=f"gpt-4o {HOSTILE}",
    )
    head, time, said = len(events), events[-1].time, events[-1].payload.message.id  # type: ignore[union-attr]
    edit = ViewEdited(
        f"stage {HOSTILE}", "before_call", HOSTILE, f"why {HOSTILE}", 9, 9, (Replace(said, (Text("x"),), 9),)
    )
    events += [
        Event(head + 1, time, UsageReported(f"gpt-4o {HOSTILE}", head, 40, 40, 4)),
        Event(head + 2, time, edit),
        Event(head + 3, time, NoteAdded("overflow", HOSTILE)),
        Event(head + 4, time, NoteAdded(f"topic {HOSTILE}", HOSTILE)),
    ]
    archive = write_archive(folder / f"{FILE[:60]}.tidegate", NAME, events)
    done = called("import", archive, "--data", folder / "data")
    assert done.returncode == 0, done.stderr
    assert_harmless(done)
    data = DataFolder(folder / "data", secrets=[])
    assert [info.name for info in data.store.sessions()] == [NAME]
    data.notes.add_entry(f"note {HOSTILE}", source="somewhere", title="title")
    data.close()
    recordings = folder / "recordings"
    recordings.mkdir()
    for place, seed in enumerate((1, 2)):
        lines = [{"meta": {"id": HOSTILE, "project": HOSTILE}}, *generate_session(6, seed)]
        text = "".join(json.dumps(line) + "\n" for line in lines)
        (recordings / f"{FILE[:60]}{place}.jsonl").write_text(text)
    (recordings / f"{FILE[:60]}-broken.jsonl").write_text(f'{{"broken \x1b[31m {FORGED}')
    policy = {"name": IN_YAML, "about": f"about {IN_YAML}", "moments": {}}
    (folder / "policy.yaml").write_text(json.dumps(policy))
    agent_model = {"provider": "openai", "model": f"gpt-4o {IN_YAML}"}
    agent = {"id": "main", "model": agent_model, "system_prompt": IN_YAML}
    (folder / "tidegate.yaml").write_text(json.dumps({"window": 4000, "agents": [agent]}))
    return folder


@pytest.fixture
def place(imported: Path, tmp_path: Path) -> Path:
    shutil.copytree(imported, tmp_path / "place")
    return tmp_path / "place"


CALLS: dict[str, list[tuple[object, ...]]] = {
    "sessions": [(), ("--json",)],
    "show": [(NAME,), (NAME, "--at", 4), (HOSTILE,)],
    "misses": [(NAME,), (NAME, "--all"), (HOSTILE,)],
    "trace": [(NAME,), (NAME, "--usage")],
    "recall": [(NAME, "m3..m5"), (NAME, "answer"), (NAME, HOSTILE)],
    "memory": [
        ("search", "note"),
        ("search", "answer"),
        ("search", "answer", "--json"),
        ("list",),
        ("show", HOSTILE),
        ("index",),
    ],
    "undo": [(NAME,)],
    "redo": [(NAME,)],
    "clear": [(NAME,)],
    "fork": [(NAME, f"fork {HOSTILE}"), (NAME, NAME)],
    "forget": [
        (NAME, "m4", "--yes"),
        (NAME, HOSTILE, "--yes"),
        (NAME,),
        (NAME, "--dry-run"),
        ("--unused-for", 1, "--dry-run"),
        ("--tenant", HOSTILE, "--everything"),
        (NAME, "--yes"),
    ],
    "export": [(NAME, "out.tidegate"), (NAME, f"none/{FILE}")],
    "import": [("recordings",), (f"{FILE[:60]}.tidegate", "--as", "twin"), (FILE,)],
    "doctor": [(), ("--json",), ("--repair",)],
    "run": [("task", "--config", "tidegate.yaml", "--session", NAME), ("task", "--model", HOSTILE)],
    "config": [("--config", "tidegate.yaml"), ("--config", "tidegate.yaml", "--json"), ("--config", FILE)],
    "policies": [(), ("default",), (HOSTILE,)],
    "seeds": [(), ("--json",)],
    "plugins": [()],
    "replay": [
        ("recordings", "--policy", "policy.yaml", "--window", 4000, "--jobs", 1, "--explain"),
        ("recordings", "--policy", "default", "--window", 4000, "--jobs", 1, "--json"),
    ],
    "lab": [
        ("recordings", "--window", 1000, "--jobs", 1, "--policy", "default", "--longer", 0.5, "--cache", "cache"),
        ("data", "--window", 1000, "--jobs", 1, "--policy", "default", "--longer", 0.5, "--cache", "cache"),
    ],
    "tune": [("recordings", "--window", 1000, "--trials", 1, "--longer", 0.5, "--jobs", 1, "--cache", "cache")],
    "ui": [()],
    "completion": [("bash",)],
    "view": [(NAME,), (NAME, "--out", f"none/{FILE}")],
    "demo": [("--fast", "--policy", "policy.yaml")],
    "chat": [("--plain", "--config", "tidegate.yaml", "--session", NAME)],
}
KEEPS_NO_DATA = {"completion", "policies", "plugins", "seeds", "replay", "lab", "tune", "config", "demo"}
NEED_A_PROCESS = {"run", "chat", "forget-2"}
"""Commands, or single calls, that read their input or start themselves again."""
EXHAUSTIVE = {"run-1", "forget-2", "seeds-0", "seeds-1", "lab-0", "lab-1", "replay-1"}
"""Slow calls. Most of these commands have another one; `tune` prints what `lab` prints."""
UNTESTED = {"fetch", "mcp", "serve", "wrap"}
"""`fetch` prints one path of the data folder and needs a network; `serve` runs until it is stopped; `mcp` writes
JSON for a program. `wrap` needs a client: tests/gateway/test_wrap.py has a session with an escape code in its name.
"""


def test_every_command_is_here() -> None:
    assert CALLS.keys() | UNTESTED == list_command_names()


def make_environment(place: Path) -> dict[str, str]:
    return {"PATH": os.environ["PATH"], "HOME": str(place), "OPENAI_API_KEY": KEY, "NO_PROXY": "*"}


def in_process(place: Path, *words: object) -> subprocess.CompletedProcess[str]:
    """With a standard input of its own, and a provider that refuses every request in hostile words."""
    with run_provider("openai_chat", lambda _: refusal("openai_chat", 400, HOSTILE)) as provider:
        done = subprocess.run(
            [sys.executable, "-m", "tidegate.cli.main", *map(str, words)],
            cwd=place,
            env={**make_environment(place), "TIDEGATE_OPENAI_BASE_URL": provider.url},
            input="/sessions\n/trace\n/model\n/context\n",
            capture_output=True,
            check=False,
            timeout=DEADLINE,
            encoding="utf-8",
        )
    assert "Traceback" not in done.stderr
    return done


def in_here(place: Path, *words: object) -> subprocess.CompletedProcess[str]:
    with surroundings(place, make_environment(place)):
        return called(*words)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        pytest.param(call, (name, *each), id=call, marks=[pytest.mark.exhaustive] if call in EXHAUSTIVE else [])
        for name in CALLS
        for at, each in enumerate(CALLS[name])
        for call in [f"{name}-{at}"]
    ],
)
def test_no_command_prints_a_control_character(call: str, words: tuple[object, ...], place: Path) -> None:
    keeps = () if words[0] in KEEPS_NO_DATA else ("--data", "data")
    done = (in_process if {call, words[0]} & NEED_A_PROCESS else in_here)(place, *words, *keeps)
    assert done.stdout or done.stderr
    assert_harmless(done, content=words[0] in ("recall", "memory"))
    if "--json" in words:
        json.loads(done.stdout)


def test_json_keeps_the_name_as_it_is_and_the_table_marks_it(place: Path) -> None:
    listed = called("sessions", "--data", place / "data")
    assert "[red]c[/red] (hidden characters)" in listed.stdout
    assert len(listed.stdout.splitlines()) == 2
    (row,) = json.loads(called("sessions", "--data", place / "data", "--json").stdout)
    assert row["name"] == NAME


def on_terminal(*words: object, cwd: Path) -> bytes:
    """What a command writes to a terminal that has colors."""
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "tidegate.cli.main", *map(str, words)]
    environment = {**os.environ, "TERM": "xterm-256color", "COLUMNS": "120"}
    with subprocess.Popen(command, cwd=cwd, env=environment, stdin=theirs, stdout=theirs, stderr=theirs) as process:
        os.close(theirs)
        written = b""
        while True:
            try:
                piece = os.read(ours, 65536)
            except OSError:  # the other end is closed
                break
            written += piece
        process.wait()
    os.close(ours)
    return written


@pytest.mark.exhaustive
def test_our_own_colors_stay_and_no_others_come(place: Path) -> None:
    """On a terminal, too: the only escapes are our styles, and the bar goes back to the start of its line."""
    written = on_terminal("demo", "--fast", "--policy", "policy.yaml", cwd=place).decode()
    styles = set(re.findall(r"\x1b\[[0-9;]*m", written))
    assert styles
    assert "[red]c[/red]" in written
    plain = re.sub(r"\x1b\[[0-9;]*m", "", written)
    assert controls_in(re.sub(r"(\d%)\r(?!\n)", r"\1\n", plain).replace("\r\n", "\n")) == []
    listed = on_terminal("sessions", "--data", "data", cwd=place).decode()
    assert NAME.split(maxsplit=1)[0] in listed
    assert controls_in(listed.replace("\r\n", "\n")) == []


def test_a_question_is_clean(place: Path) -> None:
    """`input` writes its prompt past `sys.stdout`."""
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "tidegate.cli.main", "forget", NAME, f"m4{HOSTILE}", "--data", str(place / "data")]
    with subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs) as process:
        os.close(theirs)
        written = b""
        while b"[y/N]" not in written:
            written += os.read(ours, 65536)
        os.write(ours, b"n\n")
        while True:
            try:
                piece = os.read(ours, 65536)
            except OSError:
                break
            written += piece
        assert process.wait() == 1
    os.close(ours)
    assert controls_in(written.decode().replace("\r\n", "\n")) == []


def test_the_full_screen_app_shows_names_as_text(place: Path) -> None:
    """Title, status bar, conversation, picker and the pane of the context, on a session that was imported."""

    async def play() -> None:
        async with on_stage(place, ["done"], name=NAME, size=(200, 40)) as stage:
            await stage.sees("answer")
            title = str(stage.app.query_one("#input").border_title)
            assert controls_in(title) == []
            screens = [stage.text()]
            await stage.press("f2")
            await stage.sees("next compaction:")
            screens.append(stage.text())
            await stage.press("escape")
            stage.app.action_sessions()
            await stage.sees("(here)")
            screens.append(stage.text())
            for screen in screens:
                assert controls_in(screen) == []
                assert not [line for line in screen.splitlines() if line.lstrip(" │").startswith(FORGED)]
            assert "[red]c[/red]" in screens[-1]

    played(play)


def test_a_rich_console_of_ours_prints_no_escape_of_others(capsys: pytest.CaptureFixture[str]) -> None:
    make_console(force_terminal=True, highlight=False, width=200).print(HOSTILE, markup=False, style="bold")
    written = capsys.readouterr().out
    assert "\x1b[1m" in written
    assert controls_in(written.replace("\x1b[1m", "").replace("\x1b[0m", "")) == []


texts = st.text(
    st.one_of(st.characters(), st.sampled_from("\x1b[]0;m\x07\x9b\u202e\u200d\r\n\té\U000e0041")), max_size=80
)


@pytest.mark.parametrize("clean", [strip_controls, clean_text, clean_line])
def test_nothing_harmful_is_left_of_any_text(clean: Callable[[str], str]) -> None:
    @settings(max_examples=scaled(60))
    @given(texts)
    def holds(text: str) -> None:
        done = clean(text)
        assert clean(done) == done
        assert [each for each in controls_in(done) if each not in ("200c", "200d")] == [] or _unassigned(done)
        if CLEAN.fullmatch(text) and clean is not clean_line:
            assert done == text

    holds()


def _unassigned(text: str) -> bool:
    """Format characters of single scripts (Arabic number signs, hieroglyphs) are visible and stay."""
    left = {each for each in text if unicodedata.category(each) == "Cf"}
    return left <= set("\u200c\u200d\u0600\u0601\u0602\u0603\u0604\u0605\u06dd\u070f\u0890\u0891\u08e2") | {
        chr(code) for code in (0x110BD, 0x110CD, *range(0x13430, 0x13440))
    }


@settings(max_examples=scaled(40))
@given(st.recursive(texts, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3)))
def test_escaped_json_is_the_same_value(value: object) -> None:
    encoded = escape_controls(json.dumps(value, ensure_ascii=False))
    assert json.loads(encoded) == value
    assert [each for each in controls_in(encoded) if each not in ("200c", "200d")] == [] or _unassigned(encoded)


def test_joiners_stay_where_a_script_or_an_emoji_needs_them() -> None:
    assert clean_line("👩‍💻 می‌خواهم") == "👩‍💻 می‌خواهم"
    assert clean_line("pay\u200dpal\u200c") == "paypal"


def test_a_field_cannot_swallow_what_stands_behind_it() -> None:
    """A sequence that a name begins must not take our own words with it."""
    for opened in ("\x1b]0;", "\x1bP", "\x1b[", "\x9b", "\x9d"):
        assert strip_controls(f"a{opened} 12 records").endswith(" 12 records")


def test_a_command_that_cleans_nothing_prints_nothing_harmful(capfd: pytest.CaptureFixture[str]) -> None:
    """A new command needs to know nothing of all this."""
    with guard_streams():
        print(HOSTILE)
        sys.stderr.writelines([HOSTILE, "\tnext\n"])
        sys.stdout.flush()
        sys.stdout.buffer.write(json.dumps(HOSTILE, ensure_ascii=False).encode())
        sys.stdout.flush()
    written = capfd.readouterr()
    assert controls_in(written.out) == controls_in(written.err) == []
    assert written.err.endswith("\tnext\n")
    assert json.loads(written.out.splitlines()[-1]) == HOSTILE
