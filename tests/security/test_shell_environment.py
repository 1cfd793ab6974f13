"""Threat: a command that the model runs reads the provider's key from the memory or the initial environment of the
agent's process, which the kernel shows under `/proc` to every process of the same user. The environment that the
`shell` tool hands to the command is filtered, so this would be the way around the filter.
"""

import asyncio
import base64
import json
import os
import pty
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from tests.cli.test_run import CONFIG, Desk
from tests.fake.server import Fake
from tests.security.project import DEADLINE
from tidegate.core.messages import Call
from tidegate.models.scripted_provider import ScriptedAnswer

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="/proc is read")
TOKEN = "sk-test-4f1c0a9be7d24d0c"
MCP_SERVER = Path(__file__).with_name("hostile_server.py")
ALLOWED = "capabilities: {default_policy: allow}\n"
CONSOLE_SCRIPT = [str(Path(sys.executable).with_name("tidegate"))]

PROBE = r"""
import base64, json, os, re, sys

def parent(pid):
    with open(f"/proc/{pid}/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("PPid:"))

def read(pid, name):
    try:
        with open(f"/proc/{pid}/{name}", "rb") as file:
            return file.read()
    except OSError as error:
        return error.strerror.encode()

agent = pid = int(sys.argv[1])
above = [agent]
while pid := parent(pid):
    above.append(pid)
tasks = os.listdir(f"/proc/{agent}/task")
below = [int(pid) for task in tasks for pid in read(agent, f"task/{task}/children").split()]
data = b"".join(read(pid, "environ") + read(pid, "cmdline") for pid in [*above, *below])
found = {
    "agent": agent,
    "shows": read(agent, "environ").decode(),
    "below": [read(pid, "environ").decode() for pid in below],
    "secrets": [secret.decode() for secret in re.findall(rb"sk-test-\w+|hush-\w+", data)],
}
print(base64.b64encode(json.dumps(found).encode()).decode())
"""
"""Looks into every ancestor and every child of the agent. The report is encoded so that no mask can touch it."""

PROBE_MEMORY = r"""
import base64, json, os, sys

found = {}
for name in ("mem", "environ", "fd/0"):
    try:
        os.close(os.open(f"/proc/{sys.argv[1]}/{name}", os.O_RDONLY))
        found[name] = "opened"
    except PermissionError:
        found[name] = "denied"
print(base64.b64encode(json.dumps(found).encode()).decode())
"""

WITHOUT_CAPABILITIES = r"""
import ctypes, os, sys

PR_CAPBSET_DROP, number = 24, 0
while os.geteuid() == 0 and ctypes.CDLL(None).prctl(PR_CAPBSET_DROP, number, 0, 0, 0) == 0:
    number += 1
os.execv(sys.argv[1], sys.argv[1:])
"""
"""Runs a command as an ordinary user would: root may read the memory of every process."""

PROGRAM = """
import asyncio, os, sys
from pathlib import Path
from tidegate.agent.config.files import locate_config_files, read_config
from tidegate.agent.environment import hide_environment
from tidegate.agent.runtime import open_agent
from tidegate.models.provider import Delta

async def main():
    config = read_config(locate_config_files(Path.cwd(), os.environ), os.environ)
    async with open_agent(config, data=None, name="own", workspace=Path.cwd()) as agent:
        async for each in agent.run_turn(sys.argv[2]):
            if isinstance(each, Delta) and each.kind == "text":
                print(each.text, end="")
    print()

hide_environment()
asyncio.run(main())
"""


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    desk = Desk(tmp_path)
    desk.environment["GITHUB_TOKEN"] = TOKEN
    desk.configure(CONFIG + ALLOWED)
    (tmp_path / "probe.py").write_text(PROBE)
    (tmp_path / "probe_memory.py").write_text(PROBE_MEMORY)
    return desk


async def run(desk: Desk, command: list[str], task: str = "Look.", stdin: str = "") -> int:
    """Run the task to its end; return the process id of the agent."""
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(
        *command, "run", task, stdin=pipe, stdout=pipe, stderr=pipe, cwd=desk.folder, env=desk.environment
    )
    out, err = await asyncio.wait_for(process.communicate(stdin.encode()), DEADLINE)
    assert (out, err, process.returncode) == (b"Nothing.\n", b"", 0)
    return process.pid


async def run_with_piped_task(desk: Desk, command: list[str]) -> int:
    return await run(desk, command, "-", "Look.")


async def run_in_terminal(desk: Desk, command: list[str]) -> int:
    ours, theirs = pty.openpty()
    process = await asyncio.create_subprocess_exec(
        *command, "run", "Look.", stdin=theirs, stdout=theirs, stderr=theirs, cwd=desk.folder, env=desk.environment
    )
    os.close(theirs)
    await asyncio.wait_for(process.wait(), DEADLINE)
    shown = os.read(ours, 65536).decode()
    os.close(ours)
    assert process.returncode == 0
    assert "Nothing." in shown
    return process.pid


def probe(desk: Desk, script: str, act: Callable[[], Awaitable[int]]) -> tuple[int, dict[str, Any]]:
    """Have the agent run a probe; return the agent's process id and the report of the probe."""
    pids: list[int] = []

    async def answer(server: Fake) -> None:
        pids.append(await act())

    command = f'{sys.executable} {script} "$PPID"'
    calls = (Call("c", "shell", json.dumps({"command": command})),)
    server = desk.serve([ScriptedAnswer(text="", calls=calls), "Nothing."], answer)
    assert server.refused == []
    result = server.seen[-1].body["messages"][-1]
    assert result["role"] == "tool"
    return pids[0], json.loads(base64.b64decode(result["content"].splitlines()[0]))


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    ("command", "start"),
    [
        (CONSOLE_SCRIPT, run_with_piped_task),
        (CONSOLE_SCRIPT, run_in_terminal),
        ([sys.executable, "-m", "tidegate"], run),
        ([sys.executable, "-m", "tidegate.cli.main"], run),
    ],
)
def test_no_process_in_reach_of_a_command_shows_a_key_however_it_is_started(
    desk: Desk, command: list[str], start: Callable[..., Awaitable[int]]
) -> None:
    check_probe(desk, lambda: start(desk, command))


def check_probe(desk: Desk, act: Callable[[], Awaitable[int]]) -> dict[str, Any]:
    """The provider takes the key, so the agent has it."""
    pid, report = probe(desk, "probe.py", act)
    assert report["agent"] == pid
    assert report["secrets"] == []
    assert f"PATH={os.environ['PATH']}" in report["shows"], "only what may hold a secret is hidden"
    return report


def test_no_process_in_reach_of_a_command_and_no_child_of_the_agent_shows_a_key(desk: Desk) -> None:
    """An MCP server gets the variables that its configuration names and the usual few, and a key is none of them."""
    server = f'mcp: {{w: {{command: "{sys.executable}", args: ["{MCP_SERVER}"], env: {{PLACE: here}}}}}}\n'
    desk.configure(CONFIG + ALLOWED + server)
    report = check_probe(desk, lambda: run(desk, CONSOLE_SCRIPT))
    assert [shows for shows in report["below"] if "PLACE=here" in shows] != []


def test_memory_and_open_locate_config_files_the_agent_are_closed_to_commands(desk: Desk) -> None:
    unprivileged = [sys.executable, "-c", WITHOUT_CAPABILITIES, *CONSOLE_SCRIPT]
    _, report = probe(desk, "probe_memory.py", lambda: run(desk, unprivileged))
    assert report == {"mem": "denied", "environ": "denied", "fd/0": "denied"}


@pytest.mark.exhaustive
def test_a_program_that_opens_an_agent_can_hide_its_environment(desk: Desk) -> None:
    """A program cannot be started anew by the library; `hide_environment` works in the process as it is."""
    (desk.folder / "program.py").write_text(PROGRAM)
    _, report = probe(desk, "probe.py", lambda: run(desk, [sys.executable, "program.py"]))
    assert report["secrets"] == []
