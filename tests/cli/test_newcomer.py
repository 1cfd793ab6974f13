"""The command line as a newcomer meets it: help, mistyped words, completion, an empty machine, missing packages."""

import json
import os
import pty
import shutil
import sqlite3
import subprocess
import sys
import termios
from pathlib import Path

import pytest

from tests.cli.calling import called
from tidegate import DataFolder
from tidegate.proof.session_generator import generate_session

TIDEGATE = [sys.executable, "-m", "tidegate.cli.main"]


def fill_folder(folder: Path, sessions: int) -> Path:
    ticks = iter(range(10**9))
    with DataFolder(folder, secrets=[], clock=lambda: 1.7e9 + next(ticks)) as data:
        for number in range(sessions):
            with data.open(f"s{number:03}", "gpt-4o") as session:
                session.add({"role": "user", "content": f"Question {number}"})
    return folder


def show_on_terminal(columns: int, *words: str) -> list[str]:
    """What a command prints on a terminal of this width."""
    ours, theirs = pty.openpty()
    termios.tcsetwinsize(theirs, (24, columns))
    environment = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "LINES")}
    subprocess.run(
        [*TIDEGATE, *words], stdout=theirs, stdin=theirs, stderr=subprocess.DEVNULL, env=environment, check=True
    )
    os.close(theirs)
    shown = os.read(ours, 65536).decode().splitlines()
    os.close(ours)
    return shown


def test_the_help_has_groups_and_says_how_to_remove_everything() -> None:
    told = called("--help").stdout
    heads = [line for line in told.splitlines() if line.endswith(":") and not line.startswith(" ")]
    assert len(heads) == 7
    assert "seeds" not in told
    assert "To remove everything, delete" in told
    assert called("seeds", "--help").returncode == 0


@pytest.mark.parametrize(
    ("words", "meant"),
    [
        (["sesions"], "sessions"),
        (["polices"], "policies"),
        (["chat", "--lats"], "--last"),
        (["show", "s", "--jsn"], "--json"),
    ],
)
def test_a_mistyped_word_is_suggested(words: list[str], meant: str) -> None:
    done = called(*words)
    assert (done.returncode, done.stdout) == (2, "")
    assert f"Did you mean {meant}? " in done.stderr


@pytest.mark.parametrize(
    ("words", "found"),
    [
        (["se"], ["serve", "sessions"]),
        (["show", "s00"], ["s001", "s000"]),
        (["chat", "--session", ""], ["s001", "s000"]),
        (["run", "--policy", "pi"], ["picoclaw"]),
        (["policies", "d"], ["default", "digitorn"]),
        (["sessions", "--p"], ["--page"]),
        (["seeds", "--"], ["--help", "--json", "--run"]),
        (["completion", "z"], ["zsh"]),
        (["nothing", ""], []),
    ],
)
def test_words_are_completed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: list[str], found: list[str]
) -> None:
    monkeypatch.setenv("TIDEGATE_DATA", str(fill_folder(tmp_path, 2)))
    assert called("completion", "words", "--", *words).stdout.split() == found


COMPLETING = {
    "bash": 'eval "$(tidegate completion bash)"; COMP_WORDS=(tidegate sess) COMP_CWORD=1; _tidegate; echo "$COMPREPLY"',
    "zsh": """compdef() {}; compadd() { print -- ${(P)2} }
        eval "$(tidegate completion zsh)"; words=(tidegate sess) CURRENT=2; _tidegate""",
    "fish": 'tidegate completion fish | source; complete -C "tidegate sess"',
}


@pytest.mark.parametrize("shell", COMPLETING)
def test_a_shell_completes(tmp_path: Path, shell: str) -> None:
    """The script that is printed works in the real shell, whose command `tidegate` is this one."""
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed")
    (tmp_path / "tidegate").write_text(f'#!/bin/sh\nexec "{sys.executable}" -m tidegate.cli.main "$@"\n')
    (tmp_path / "tidegate").chmod(0o755)
    environment = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}", "HOME": str(tmp_path)}
    command = [shell, "-c", COMPLETING[shell]]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert done.stdout == "sessions\n"


def test_a_new_machine_has_no_sessions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TIDEGATE_DATA", raising=False)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    done = called("sessions")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == f"No sessions are stored yet in {tmp_path}/tidegate. To start one: tidegate chat\n"
    assert json.loads(called("sessions", "--json").stdout) == []
    assert not list(tmp_path.iterdir())
    assert called("sessions", "--data", tmp_path / "mistyped").returncode == 2


def test_sessions_are_paged_and_only_those_of_the_page_are_read(tmp_path: Path) -> None:
    """The oldest log is damaged: only the page that shows it says so."""
    fill_folder(tmp_path, 120)
    with sqlite3.connect(tmp_path / "tidegate.db") as db:
        db.execute("UPDATE recent_rows SET data = zeroblob(4) WHERE place <= 2")
    db.close()
    first, last, none = (called("sessions", "--data", tmp_path, "--page", page) for page in (1, 3, 4))
    lines = first.stdout.splitlines()
    assert [line.split()[0] for line in lines[1:-1]] == [f"s{number:03}" for number in range(119, 69, -1)]
    assert lines[-1] == "1 to 50 of 120 sessions. More: tidegate sessions --page 2"
    assert "damaged" not in first.stdout
    assert last.stdout.splitlines()[-1] == "101 to 120 of 120 sessions."
    assert "damaged" in last.stdout
    assert none.stdout == "There is no page 4; the last one is 3.\n"
    assert len(json.loads(called("sessions", "--data", tmp_path, "--json").stdout)) == 120


def test_listing_sessions_loads_no_policies_no_engine_and_no_other_command(tmp_path: Path) -> None:
    code = "import sys; from tidegate.cli.main import main; main(sys.argv[1:]); print(*sys.modules)"
    fill_folder(tmp_path, 1)
    done = subprocess.run(
        [sys.executable, "-c", code, "sessions", "--data", str(tmp_path)], capture_output=True, text=True, check=True
    )
    loaded = done.stdout.splitlines()[-1].split()
    assert "tidegate.store.sqlite.store" in loaded
    assert "tidegate.commands.operations.sessions" in loaded
    assert "tidegate.cli.chat" not in loaded
    assert not [
        name for name in loaded if name.startswith(("tidegate.session.", "tidegate.core.plan", "tidegate.agent"))
    ]


@pytest.mark.parametrize("columns", [50, 80, 120])
def test_the_table_fits_the_terminal(tmp_path: Path, columns: int) -> None:
    with (
        DataFolder(tmp_path, secrets=[]) as data,
        data.open("a-name-of-forty-characters-and-some-more", "gpt-4o") as session,
    ):
        session.add({"role": "user", "content": "Why is the build so slow? " * 10})
    lines = show_on_terminal(columns, "sessions", "--data", str(tmp_path))
    assert len(lines) == 2
    assert all(len(line) <= columns for line in lines), lines
    assert lines[1].startswith("a-name-of-forty-characters-and-some-more")


@pytest.mark.parametrize(
    ("words", "packages", "extras"),
    [
        (["run", "Hi."], ["pyte", "xllamacpp"], "agent,local"),
        (["run", "Hi.", "--model", "ollama/m"], ["pyte"], "agent"),
        (["serve", "--otel"], ["uvicorn", "opentelemetry"], "gateway,otel"),
    ],
)
def test_all_missing_extras_are_named_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: list[str], packages: list[str], extras: str
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    for name in ("pyte", "xllamacpp", "uvicorn", "opentelemetry"):
        monkeypatch.setitem(sys.modules, name, None)
    done = called(*words)
    assert done.returncode == 2
    noun = "package" if len(packages) == 1 else "packages"
    assert f"This command needs the {noun} {', '.join(packages)}, which " in done.stderr
    assert f"pip install 'tidegate[{extras}]'" in done.stderr


def test_show_recall_and_policies_print_json(tmp_path: Path) -> None:
    with DataFolder(tmp_path, secrets=[]) as data, data.open("short", "gpt-4o") as session:
        session.add({"role": "user", "content": "Hello."})
        session.record({"prompt_tokens": session.prepare().tokens, "completion_tokens": 2})
        session.history.clear()
    outline = json.loads(called("show", "short", "--data", tmp_path, "--json").stdout)
    assert (outline["messages"], outline["turns"], outline["model"], len(outline["requests"])) == (0, 0, "gpt-4o", 1)
    assert [(entry["kind"], entry["what"]) for entry in outline["entries"]] == [("note", "clear")]
    found = json.loads(called("recall", "short", "hello", "--data", tmp_path, "--json").stdout)
    assert "Hello." in found["text"]
    assert len(found["ids"]) == 1
    policies = json.loads(called("policies", "--json").stdout)
    assert "default" in [policy["name"] for policy in policies]
    assert all("Choose it " in policy["about"] for policy in policies)


@pytest.mark.exhaustive
def test_show_and_config_fit_a_narrow_terminal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Their columns stay: a long text goes on below its beginning."""
    monkeypatch.chdir(tmp_path)
    with DataFolder(tmp_path / "data", secrets=[]) as data, data.open("short", "gpt-4o", window=3_000) as session:
        for number in range(9):
            session.add({"role": "user", "content": f"{number} " * 400}, {"role": "assistant", "content": "Done."})
            session.record({"prompt_tokens": session.prepare().tokens, "completion_tokens": 2})
    outline = show_on_terminal(60, "show", "short", "--data", str(tmp_path / "data"))
    settings = show_on_terminal(60, "config")
    assert all(len(line) <= 60 for line in outline + settings), outline + settings
    sweep = next(number for number, line in enumerate(outline) if "sweep:" in line)
    assert outline[sweep + 1].startswith(" " * (outline[sweep].index("sweep:")))
    mode = next(number for number, line in enumerate(settings) if line.startswith("execution.mode "))
    assert settings[mode : mode + 2] == ["execution.mode" + " " * 26 + "conversation", " " * 40 + "(default)"]


@pytest.mark.parametrize("command", ["chat", "import", "replay", "sessions"])
def test_the_help_of_a_command_fits_the_terminal(command: str) -> None:
    """Only its examples, which are copied, may be longer."""
    lines = show_on_terminal(60, command, "--help")
    assert not [line for line in lines if len(line) > 60 and not line.startswith("  tidegate ")]
    assert all(len(line) <= 118 for line in show_on_terminal(200, command, "--help"))


@pytest.mark.parametrize(("columns", "tables"), [(80, 2), pytest.param(200, 1, marks=pytest.mark.exhaustive)])
def test_a_table_that_is_too_wide_continues_below(tmp_path: Path, columns: int, tables: int) -> None:
    said = [{"meta": {"id": "one"}}, *generate_session(6, 0)]
    (tmp_path / "one.jsonl").write_text("".join(json.dumps(line) + "\n" for line in said))
    lines = show_on_terminal(columns, "replay", str(tmp_path), "--window", "4k", "--jobs", "1")
    table = [line for line in lines if line.startswith(("session ", "one ", "total ", "---"))]
    assert sum(line.startswith("session ") for line in table) == tables
    assert all(len(line) <= columns for line in table), table
    assert "edits by stage" in "".join(table)
