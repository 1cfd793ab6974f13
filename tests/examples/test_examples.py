"""Every program of examples/ runs as it is, against a strict provider on this machine."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.command_server import FinishedCommand, shared_command_server
from tests.integrations.provider import FINAL_ANSWER, KEY, LongTask, run_provider
from tests.lab.recordings import record
from tests.scale import scaled
from tests.store.conftest import postgres, postgres_data, postgres_url

__all__ = ["postgres", "postgres_data", "postgres_url"]

EXAMPLES = Path(__file__).parents[2] / "examples"
PROGRAMS = sorted(path.name for path in EXAMPLES.glob("*.py"))
WINDOW = 16_000

pytestmark = pytest.mark.skipif(not EXAMPLES.exists(), reason="the examples are not in the source distribution")


def run_example(name: str, folder: Path, *arguments: str, from_nothing: bool = False, **variables: str) -> str:
    """Run a program, in a process that has loaded the SDKs, or in one that starts `from_nothing`."""
    before = {path.name for path in folder.iterdir()}
    environment = {**os.environ, "HOME": str(folder), "XDG_CACHE_HOME": str(folder / "cache"), **variables}
    if from_nothing:
        command = [sys.executable, str(EXAMPLES / name), *arguments]
        ran = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
        done = FinishedCommand(ran.returncode, ran.stdout, ran.stderr)
    else:
        server = shared_command_server("openai", "anthropic")
        done = server.run_program(EXAMPLES / name, arguments, folder, environment)
    assert done.status == 0, done.out[-2000:] + done.err[-2000:]
    left = {path.name for path in folder.iterdir()} - before
    assert left <= {"cache", ".cache", ".local"}, f"{name} leaves {left} in the working folder"
    return done.out


def test_every_program_is_short_and_has_a_test_and_a_line_in_the_list() -> None:
    tests = Path(__file__).read_text("utf-8")
    page = (EXAMPLES.parent / "docs" / "howto.md").read_text("utf-8")
    assert len(PROGRAMS) >= 7
    for name in PROGRAMS:
        assert f'"{name}"' in tests
        assert f"| `{name}` |" in page
    for path in EXAMPLES.rglob("*.py"):
        if "plugins" not in path.parts:
            assert 20 <= len(path.read_text("utf-8").splitlines()) <= 80, path.name


def test_own_loop_with_openai(tmp_path: Path) -> None:
    with run_provider("openai_chat", LongTask(40, parallel=2), WINDOW) as fake:
        shown = run_example("own_loop_openai.py", tmp_path, OPENAI_BASE_URL=fake.url, OPENAI_API_KEY=KEY)
        assert fake.refused == []
        assert len(fake.seen) == 21
    assert shown.startswith(FINAL_ANSWER)
    assert "of 16,000 tokens" in shown


def test_own_loop_with_anthropic(tmp_path: Path) -> None:
    with run_provider("anthropic", LongTask(40, parallel=2), WINDOW) as fake:
        shown = run_example("own_loop_anthropic.py", tmp_path, ANTHROPIC_BASE_URL=fake.host, ANTHROPIC_API_KEY=KEY)
        assert fake.refused == []
        assert len(fake.seen) == 21
    assert shown.startswith(FINAL_ANSWER)


def test_own_loop_offline(tmp_path: Path) -> None:
    shown = run_example("own_loop_offline.py", tmp_path, from_nothing=True)
    assert shown.startswith("I have read 40 pages and see ")
    assert "Page 1 left the window and can be recalled: " in shown
    assert "K0001" in shown
    assert "of 8,000 tokens" in shown


def test_streaming_and_async_twice_in_one_conversation(tmp_path: Path) -> None:
    with run_provider("openai_chat", LongTask(0), WINDOW) as fake:
        shown = run_example("streaming_async.py", tmp_path, OPENAI_BASE_URL=fake.url, OPENAI_API_KEY=KEY)
        assert shown.split("\n") == [FINAL_ANSWER, FINAL_ANSWER, ""]
        assert fake.refused == []
        assert [message["role"] for message in fake.seen[-1].body["messages"]] == ["user", "assistant", "user"]


def test_custom_stage(tmp_path: Path) -> None:
    shown = run_example("custom_stage.py", tmp_path, from_nothing=True)
    assert shown.startswith("step 0 took 4.2 s\nstep 1 took 4.2 s\nstep 2 took 4.2 s\n[497 lines cut; recall m3]")


def check_bot(folder: Path, *arguments: str) -> None:
    with run_provider("openai_chat", LongTask(0), WINDOW) as fake:
        shown = run_example(
            "bot_with_many_sessions.py", folder, *arguments, OPENAI_BASE_URL=fake.url, OPENAI_API_KEY=KEY
        )
        assert fake.refused == []
        assert len(fake.seen) == 20
        roles = [[message["role"] for message in seen.body["messages"]] for seen in fake.seen]
    assert roles.count(["system", "user", "assistant", "user"]) == 10, "the second question continues each session"
    assert "10 sessions are kept" in shown


def test_bot_with_many_sessions(tmp_path: Path) -> None:
    check_bot(tmp_path)


@pytest.mark.exhaustive
def test_bot_with_many_sessions_on_postgresql(tmp_path: Path, postgres_url: str) -> None:
    check_bot(tmp_path, postgres_url)


@pytest.mark.exhaustive
def test_mcp_recall(tmp_path: Path) -> None:
    shown = run_example("mcp_recall.py", tmp_path, from_nothing=True)
    assert "Tools: recall, search, notes, status" in shown
    assert "Step 3: port 8003 is taken." in shown


@pytest.mark.exhaustive
@pytest.mark.parametrize("own", [True, False][: scaled(1)])
def test_tuned_policy(tmp_path: Path, own: bool) -> None:
    """Sessions of the user are short here, so whether it finds something better is a matter of chance.

    With its own long sessions, which take a minute of CPU, it does: `TIDEGATE_CASES=2`. tests/lab/tuning tests that
    `tune` finds a better value and writes the policy.
    """
    sessions = tmp_path / "sessions"
    if own:
        record(sessions, 4, 2)
    shown = run_example("tuned_policy.py", tmp_path, *([str(sessions)] if own else []), from_nothing=True)
    found = re.search(r"above a pressure of ([\d.]+)\.", shown)
    assert found or (own and "Nothing better was found" in shown)
    if found:
        assert f"at: {found[1]}" in shown
