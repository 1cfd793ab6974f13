"""`tidegate wrap` as a process of its own, with a small program that plays the client."""

import asyncio
import json
import os
import re
import signal
import stat
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.cli.calling import called
from tests.fake.server import KEY, Fake
from tests.gateway.scripted_client import step_answer
from tests.session.noted import write_answer
from tidegate.cli.client_bypasses import ClientSituation, find_bypasses, read_own_addresses
from tidegate.cli.wrapped_clients import CLIENTS, find_user_upstreams, make_client_setup
from tidegate.core.usage import Usage
from tidegate.datafolder.data_folder import DataFolder
from tidegate.datafolder.workspaces import find_workspace
from tidegate.wire.streaming.scripted_answer import ScriptedAnswer

CLIENT = '''#!{python}
"""Plays Claude Code: argument 1 is the number of steps, argument 2 the exit status; `wait` waits for a signal."""
import json, os, signal, sys, time, urllib.request

def ask(messages):
    body = {{"model": "claude-opus-4-6", "max_tokens": 500, "messages": messages,
            "tools": [{{"name": "step", "input_schema": {{"type": "object"}}}}]}}
    headers = {{"content-type": "application/json", "x-api-key": "{key}", "anthropic-version": "2023-06-01",
               "x-claude-code-session-id": "abc"}}
    headers |= dict(line.split(": ") for line in os.environ["ANTHROPIC_CUSTOM_HEADERS"].splitlines())
    url = os.environ["ANTHROPIC_BASE_URL"] + "/v1/messages"
    sent = urllib.request.Request(url, json.dumps(body).encode(), headers)
    with urllib.request.urlopen(sent) as answer:
        return json.load(answer)["content"]

settings = {{}}
if sys.argv[1] == "--settings":
    settings = json.load(open(sys.argv[2]))["env"]
    del sys.argv[1:3]
if sys.argv[1] == "wait":
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, lambda number, _: sys.exit(40 + number))
    print("ready", flush=True)
    time.sleep(3600)
elif sys.argv[1] == "die":
    os.kill(os.getpid(), signal.SIGKILL)
elif sys.argv[1] == "say":
    print(json.dumps({{"argv": sys.argv[2:], "env": dict(os.environ), "settings": settings}}))
else:
    messages = [{{"role": "user", "content": "Run the steps."}}]
    for step in range(int(sys.argv[1])):
        said = ask(messages)
        messages.append({{"role": "assistant", "content": said}})
        results = [{{"type": "tool_result", "tool_use_id": block["id"], "content": f"r{{step}} " + "word " * 1500}}
                   for block in said if block["type"] == "tool_use"]
        messages.append({{"role": "user", "content": results}})
    sys.exit(int(sys.argv[2]))
'''


class Finished(NamedTuple):
    status: int
    printed: str
    errors: str


class Machine:
    """A home folder, a folder of programs and a data folder, and the command in them."""

    def __init__(self, folder: Path) -> None:
        self.home, self.data, self.work = folder / "home", folder / "data", folder / "work"
        programs = folder / "bin"
        for each in (self.home, self.work, programs):
            each.mkdir()
        (self.home / ".claude").mkdir()
        (self.home / ".claude" / "settings.json").write_text('{"theme": "dark"}')
        for name in ("claude", "codex", "gemini"):
            (programs / name).write_text(CLIENT.format(python=sys.executable, key=KEY))
            (programs / name).chmod(stat.S_IRWXU)
        self.environment = {
            "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}",
            "HOME": str(self.home),
            "TIDEGATE_DATA": str(self.data),
            "PYTHONPATH": os.pathsep.join(sys.path),
        }

    async def start(self, *arguments: str, **environment: str) -> asyncio.subprocess.Process:
        return await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "tidegate.cli.main", "wrap", *arguments),
            cwd=self.work,
            env={**self.environment, **environment},
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )

    async def wrap(self, *arguments: str, **environment: str) -> Finished:
        process = await self.start(*arguments, **environment)
        printed, errors = await process.communicate()
        assert process.returncode is not None
        return Finished(process.returncode, printed.decode(), errors.decode())

    def list_home(self) -> dict[str, bytes]:
        return {str(path): path.read_bytes() for path in sorted(self.home.rglob("*")) if path.is_file()}


def test_a_wrapped_run_is_kept_fits_and_ends_with_a_summary(tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    home = machine.list_home()

    async def run() -> tuple[Finished, Fake]:
        async with Fake("anthropic", [step_answer(number) for number in range(12)]) as fake:
            found = await machine.wrap(
                "claude",
                "--window",
                "8000",
                "--log",
                str(tmp_path / "log"),
                "--",
                "12",
                "7",
                ANTHROPIC_BASE_URL=fake.host,
            )
            return found, fake

    found, fake = asyncio.run(run())
    assert found.status == 7, found.errors
    assert len(fake.seen) == 12
    assert not fake.refused
    assert "tidegate: session claude-abc, 12 requests" in found.errors
    assert "kept           24 messages" in found.errors
    lines = found.errors.splitlines()
    place = next(place for place, line in enumerate(lines) if line.startswith("  saved"))
    whole, fitting = (int(line.split("about ")[1].split()[0].replace(",", "")) for line in lines[place : place + 2])
    assert lines[place].endswith("less than the client's own requests")
    assert lines[place + 1].endswith("less than the same requests cut to the window")
    assert whole > fitting > 10_000
    assert machine.list_home() == home
    assert (tmp_path / "log").read_text().count("POST /v1/messages 200") == 12
    assert stat.S_IMODE((tmp_path / "log").stat().st_mode) == 0o600
    with DataFolder(machine.data) as data:
        assert find_workspace(data, "claude-abc") == str(machine.work)


@pytest.mark.exhaustive
def test_the_summary_says_what_state_notes_took(tmp_path: Path) -> None:
    machine = Machine(tmp_path)

    async def run() -> Finished:
        def answer(body: dict[str, object]) -> ScriptedAnswer:
            if "[tidegate: the state note]" not in json.dumps(body):
                return step_answer(len(fake.seen))
            return ScriptedAnswer(text=write_answer(state="- the steps are running"), usage=Usage(9_000, 100, 8_100, 0))

        async with Fake("anthropic", answer) as fake:
            words = ("claude", "--state-notes", "--policy", "default", "--window", "16000", "--", "40", "0")
            found = await machine.wrap(*words, ANTHROPIC_BASE_URL=fake.host)
            assert not fake.refused
            return found

    found = asyncio.run(run())
    assert found.status == 0, found.errors
    said = re.search(r"state notes +(\d+) written\n +for ([\d,]+) input tokens \(90% from the", found.errors)
    assert said is not None, found.errors
    assert int(said[2].replace(",", "")) == int(said[1]) * 9_000 > 0
    assert "--state-notes" not in found.errors, "it is on"


@pytest.mark.exhaustive
def test_a_policy_that_uses_nothing_a_model_writes_is_named(tmp_path: Path) -> None:
    policy = tmp_path / "plain.yaml"
    policy.write_text(
        'name: plain\nmoments:\n  before_call:\n    - {stage: clear_results, keep: 3, when: {fill: "> 0.8"}}\n'
    )
    found = asyncio.run(Machine(tmp_path).wrap("claude", "--state-notes", "--policy", str(policy), "--", "say"))
    assert f"warning: State notes have no effect under the policy {policy}" in found.errors


CLAUDE_SETTINGS = {"env": {"ANTHROPIC_BASE_URL": "http://127.0.0.1:9", "ANTHROPIC_CUSTOM_HEADERS": "x-team: blue"}}


@pytest.mark.exhaustive
def test_settings_of_the_client_that_would_win_are_replaced_for_the_run(tmp_path: Path) -> None:
    """Claude Code sets the variables of its settings over those of its environment, but under `--settings`."""
    machine = Machine(tmp_path)
    (machine.home / ".claude" / "settings.json").write_text(json.dumps(CLAUDE_SETTINGS))
    home = machine.list_home()
    ran = asyncio.run(machine.wrap("claude", "--quiet", "--", "say"))
    assert (ran.status, ran.errors) == (0, "")
    said = json.loads(ran.printed)
    assert said["settings"]["ANTHROPIC_BASE_URL"] == said["env"]["ANTHROPIC_BASE_URL"] != "http://127.0.0.1:9"
    assert re.fullmatch(r"x-team: blue\nx-tidegate-token: \S{20,}", said["settings"]["ANTHROPIC_CUSTOM_HEADERS"])
    assert machine.list_home() == home


@pytest.mark.parametrize(
    ("client", "files", "environment", "arguments", "cause"),
    [
        ("claude", {}, {"CLAUDE_CODE_USE_BEDROCK": "1"}, [], "makes Claude Code use Amazon Bedrock"),
        ("claude", {}, {"CLAUDE_CODE_USE_BEDROCK": "0"}, [], ""),
        ("claude", {".claude/settings.json": {"env": {"CLAUDE_CODE_USE_VERTEX": "1"}}}, {}, [], "Google Vertex AI"),
        ("claude", {".claude/settings.json": CLAUDE_SETTINGS}, {}, [], ""),
        ("claude", {".claude/settings.json": CLAUDE_SETTINGS}, {}, ["--settings", "x"], "wins over the gateway's"),
        ("opencode", {".config/opencode/opencode.jsonc": {"model": "openrouter/x"}}, {}, [], "provider openrouter"),
        ("opencode", {".config/opencode/opencode.json": {"model": "openai/x"}}, {}, [], ""),
        ("opencode", {}, {}, ["run", "--model=groq/x", "hello"], "provider groq"),
        ("pi", {".pi/agent/settings.json": {"defaultProvider": "xai"}}, {}, [], "provider xai"),
        ("pi", {".pi/agent/settings.json": {"defaultProvider": "xai"}}, {}, ["--provider", "openai"], ""),
        (
            "gemini",
            {".gemini/settings.json": {"security": {"auth": {"selectedType": "oauth-personal"}}}},
            {},
            [],
            "login",
        ),
        ("gemini", {}, {"GOOGLE_GENAI_USE_VERTEXAI": "true"}, [], "Google Vertex AI"),
        (
            "qwen",
            {".qwen/settings.json": {"security": {"auth": {"selectedType": "qwen-oauth"}}}},
            {},
            [],
            "login with Qwen",
        ),
        ("aider", {}, {}, ["--model", "bedrock/x"], "provider bedrock"),
        ("codex", {}, {}, [], ""),
    ],
)
def test_what_bypasses_the_gateway_is_found(
    client: str,
    files: dict[str, object],
    environment: dict[str, str],
    arguments: list[str],
    cause: str,
    tmp_path: Path,
) -> None:
    for name, content in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(f"// settings\n{json.dumps(content)}")
    situation = ClientSituation({"HOME": str(tmp_path), **environment}, tmp_path / "work", arguments)
    found = find_bypasses(client, situation)
    assert [cause in str(each) for each in found] == ([True] if cause else [])


@pytest.mark.exhaustive
def test_a_bypass_is_said_before_the_start(tmp_path: Path) -> None:
    ran = asyncio.run(Machine(tmp_path).wrap("claude", "--quiet", "--", "say", CLAUDE_CODE_USE_BEDROCK="1"))
    assert ran.errors.startswith("tidegate: warning: CLAUDE_CODE_USE_BEDROCK in the environment makes Claude Code use")
    assert "do not go through tidegate" in ran.errors


@pytest.mark.exhaustive
def test_a_window_that_the_tools_fill_is_said(tmp_path: Path) -> None:
    async def run() -> Finished:
        async with Fake("anthropic", [step_answer(0)]) as fake:
            machine = Machine(tmp_path)
            return await machine.wrap("claude", "--window", "250", "--", "1", "0", ANTHROPIC_BASE_URL=fake.host)

    errors = asyncio.run(run()).errors
    assert "tidegate: no request of Claude Code was managed." in errors
    assert "sent whole     1 request" in errors
    assert re.search(
        r"The fixed part does not leave room: .* against a window of 250\. [\d,]+ tokens are the least\.", errors
    )
    assert "sent no conversation" not in errors


@pytest.mark.exhaustive
def test_the_session_of_this_folder_is_continued(tmp_path: Path) -> None:
    """Its name reaches the terminal without escape codes."""
    machine = Machine(tmp_path)

    async def run() -> tuple[Finished, Finished, Finished]:
        async with Fake("anthropic", [step_answer(0)]) as fake:
            named = ("claude", "--session", "a\x1b[31mb")
            first = await machine.wrap(*named, "--", "1", "0", ANTHROPIC_BASE_URL=fake.host)
            last = await machine.wrap("claude", "--last", "--", "say", "--verbose")
            resumed = await machine.wrap("codex", "--session", "codex-17", "--quiet")
        return first, last, resumed

    first, last, resumed = asyncio.run(run())
    name = re.search(r"tidegate: session (a_31mb-[0-9a-f]+), 1 request\n", first.errors)
    assert name is not None, first.errors
    assert "\x1b" not in first.errors
    assert "  left the view  nothing: " in first.errors
    said = json.loads(last.printed)
    assert said["env"]["ANTHROPIC_BASE_URL"].endswith(f"/s/{name[1]}")
    assert said["argv"] == ["--verbose"]
    assert "Claude Code sent no conversation through the gateway" in last.errors
    assert "invalid literal for int() with base 10: '-c'" in resumed.errors, "its own arguments come first"
    assert "tidegate:" not in resumed.errors


@pytest.mark.parametrize(
    "number",
    [signal.SIGTERM, *(pytest.param(each, marks=pytest.mark.exhaustive) for each in (signal.SIGINT, signal.SIGHUP))],
)
def test_signals_reach_the_client_and_its_status_is_returned(number: signal.Signals, tmp_path: Path) -> None:
    async def run() -> int | None:
        process = await Machine(tmp_path).start("claude", "--", "wait")
        assert process.stdout is not None
        assert await process.stdout.readline() == b"ready\n"
        process.send_signal(number)
        await process.communicate()
        return process.returncode

    assert asyncio.run(run()) == 40 + number


@pytest.mark.exhaustive
def test_a_signal_during_the_start_ends_the_client_too(tmp_path: Path) -> None:
    """The client asks for it as the first thing it does; what it would have left open ends with it."""
    machine = Machine(tmp_path)
    (tmp_path / "bin" / "claude").write_text("#!/bin/sh\nkill -TERM $PPID\nexec sleep 3600\n")

    async def run() -> int | None:
        process = await machine.start("claude")
        await asyncio.wait_for(process.communicate(), 300)  # it ends when no process has its output open
        return process.returncode

    assert asyncio.run(run()) == 128 + signal.SIGTERM


@pytest.mark.exhaustive
def test_only_requests_that_were_accepted_are_counted(tmp_path: Path) -> None:
    async def run() -> Finished:
        async with Fake("anthropic", [step_answer(number) for number in range(2)]) as fake:  # it refuses the third
            return await Machine(tmp_path).wrap("claude", "--", "3", "0", ANTHROPIC_BASE_URL=fake.host)

    found = asyncio.run(run())
    assert "tidegate: session claude-abc, 2 requests" in found.errors, found.errors
    assert "saved          nothing: every request was forwarded whole" in found.errors


@pytest.mark.exhaustive
def test_a_client_that_a_signal_ended(tmp_path: Path) -> None:
    assert asyncio.run(Machine(tmp_path).wrap("claude", "--", "die")).status == 128 + signal.SIGKILL


def test_a_missing_client_says_how_to_install_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {**Machine(tmp_path).environment, "PATH": str(tmp_path)}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.chdir(tmp_path)
    found = called("wrap", "qwen")
    assert found.returncode == 2
    assert "npm install -g @qwen-code/qwen-code" in found.stderr
    assert not (tmp_path / "data").exists()


def test_arguments_of_the_client_need_two_hyphens() -> None:
    found = called("wrap", "claude", "-p", "hello")
    assert found.returncode == 2
    assert "put -- before" in found.stderr
    assert "--window" in called("wrap", "claude", "--help").stdout


URL = "http://127.0.0.1:9"


def test_every_client_is_pointed_at_the_gateway(tmp_path: Path) -> None:
    for name, client in CLIENTS.items():
        setup = make_client_setup(client, URL, {"HOME": str(tmp_path)}, tmp_path, token="the-token")
        assert URL in str(setup), name
        assert "the-token" in str(setup), name
        assert not re.search(r"\{(url|token|file|codex_key)\}", str(setup)), name
        assert URL in called("serve", "--env", name, "--port", "9").stdout, name


def test_codex_uses_its_login_or_the_key_in_the_environment(tmp_path: Path) -> None:
    environment = {"CODEX_HOME": str(tmp_path), "OPENAI_API_KEY": "k"}
    assert 'env_key="OPENAI_API_KEY"' in make_client_setup(CLIENTS["codex"], URL, environment).arguments[-1]
    (tmp_path / "auth.json").write_text("{}")
    assert "requires_openai_auth=true" in make_client_setup(CLIENTS["codex"], URL, environment).arguments[-1]


SAY_GEMINI = """import json, os, pathlib
home = pathlib.Path(os.environ.get("GEMINI_CLI_HOME", os.environ["HOME"])) / ".gemini"
print(json.dumps([(home / "settings.json").read_text(), (home / "GEMINI.md").read_text()]))
"""


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    ("own", "shown"),
    [
        ({"theme": "x"}, {"theme": "x", "security": {"auth": {"selectedType": "gemini-api-key"}}}),
        pytest.param(*({"security": {"auth": {"selectedType": "oauth-personal"}}},) * 2, marks=pytest.mark.exhaustive),
    ],
)
def test_gemini_uses_the_key_if_the_user_chose_nothing_else(own: object, shown: object, tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    folder = machine.home / ".gemini"
    folder.mkdir()
    (folder / "settings.json").write_text(json.dumps(own))
    (folder / "GEMINI.md").write_text("Be brief.")
    (tmp_path / "bin" / "gemini").write_text(f"#!{sys.executable}\n{SAY_GEMINI}")
    done = asyncio.run(machine.wrap("gemini", GEMINI_API_KEY=KEY))
    settings, memory = json.loads(done.printed)
    assert (json.loads(settings), memory) == (shown, "Be brief.")
    assert json.loads((folder / "settings.json").read_text()) == own
    assert sorted(path.name for path in folder.iterdir()) == ["GEMINI.md", "settings.json"]


def test_the_users_own_configuration_in_the_environment_is_kept() -> None:
    own = {"OPENCODE_CONFIG_CONTENT": '{"model": "x", "provider": {"anthropic": {"options": {"apiKey": "k"}}}}'}
    merged = json.loads(make_client_setup(CLIENTS["opencode"], URL, own).environment["OPENCODE_CONFIG_CONTENT"])
    assert merged["model"] == "x"
    assert merged["provider"]["anthropic"]["options"] == {"apiKey": "k", "baseURL": f"{URL}/anthropic/v1"}


def test_requests_go_where_the_client_would_send_them() -> None:
    assert find_user_upstreams(CLIENTS["qwen"], {"OPENAI_BASE_URL": "http://own/v1"}) == {"openai": "http://own/v1"}
    assert find_user_upstreams(CLIENTS["qwen"], {}) == {}


@pytest.mark.parametrize(
    ("program", "files", "shown"),
    [
        (
            "opencode",
            {
                "work/opencode.json": {"provider": {"anthropic": {"options": {"baseURL": "http://own/v1"}}}},
                "home/.config/opencode/opencode.json": {
                    "provider": {
                        "anthropic": {"options": {"baseURL": "http://other/v1"}},
                        "google": {"options": {"baseURL": "https://own/v1beta/"}},
                        "openai": {"options": {"baseURL": "{env:OWN_URL}"}},
                    }
                },
            },
            {"anthropic": "http://own", "gemini": "https://own"},
        ),
        (
            "pi",
            {
                "home/.pi/agent/models.json": {
                    "providers": {"openai": {"baseUrl": "http://own/v1"}, "x": {"baseUrl": "y"}}
                }
            },
            {"openai": "http://own/v1"},
        ),
        ("codex", {}, {}),
    ],
)
def test_the_gateway_forwards_to_addresses_of_the_clients_own_settings(
    tmp_path: Path, program: str, files: dict[str, object], shown: dict[str, str]
) -> None:
    for name, content in files.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(content))
    situation = ClientSituation({"HOME": str(tmp_path / "home")}, tmp_path / "work")
    assert read_own_addresses(program, situation) == shown
