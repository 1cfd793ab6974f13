"""`shell`: real processes, ended whole."""

import asyncio
import gc
import os
import time
from pathlib import Path

import pytest

from tests.agent.tools.workshop import make_context, use
from tidegate.agent.environment import allowed_environment
from tidegate.agent.tools.process_group import run_process_group
from tidegate.agent.tools.shell import shell_tool
from tidegate.agent.tools.shell.shell_tool import SHELL_TOOL
from tidegate.agent.tools.tool import ToolContext


@pytest.fixture
def context(tmp_path: Path) -> ToolContext:
    return make_context(tmp_path)


def alive(pid: int) -> bool:
    """A zombie that nobody has asked for yet does nothing any more."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def read_pids(folder: Path) -> list[int]:
    return [int(text) for path in folder.glob("pid*") if (text := path.read_text().strip())]


def wait_for_pids(folder: Path, count: int) -> list[int]:
    """The processes of a command, by what they wrote when they began."""
    while len(found := read_pids(folder)) < count:
        time.sleep(0.01)
    return found


def wait_until_gone(pids: list[int]) -> None:
    while any(map(alive, pids)):
        time.sleep(0.01)


# One that does as it is told, one that does not hear, one in a group of its shell's making.
FAMILY = """
echo $$ > pid1
(trap '' TERM; echo $BASHPID > pid2; while true; do sleep 1; done) &
(echo $BASHPID > pid3; sleep 60) &
"""


def test_output_and_exit_code(context: ToolContext) -> None:
    result = use(SHELL_TOOL, context, command="echo out; echo err >&2; pwd; exit 3")
    assert result.is_error
    assert result.text == f"out\nerr\n{context.workspace}\n[exit code 3]"
    assert use(SHELL_TOOL, context, command="true").text == "[no output; exit code 0]"
    assert not use(SHELL_TOOL, context, command="true").is_error
    assert "ended by SIGKILL" in use(SHELL_TOOL, context, command="kill -9 $$").text


def test_there_is_no_input_and_no_terminal(context: ToolContext) -> None:
    assert use(SHELL_TOOL, context, command="cat; test -t 0 || echo none; test -t 1 || echo pipe").text == (
        "none\npipe\n[exit code 0]"
    )


@pytest.mark.seed("JUT-04", fixed="the tool renders and caps before any preset sees the result")
def test_a_progress_bar_costs_its_last_state(context: ToolContext) -> None:
    command = r"for i in $(seq 1 2000); do printf '\r%d of 2000 [\033[32m####\033[0m]' $i; done; echo; echo done"
    assert use(SHELL_TOOL, context, command=command).text == "2000 of 2000 [####]\ndone\n[exit code 0]"


@pytest.mark.seed("JUT-04", fixed="the tool renders and caps before any preset sees the result")
def test_lines_that_are_drawn_again_cost_their_last_state(context: ToolContext) -> None:
    command = r"printf 'a: 1\nb: 1\n'; for i in 2 3 4; do printf '\033[2Aa: %d\nb: %d\n' $i $i; done"
    assert use(SHELL_TOOL, context, command=command).text == "a: 4\nb: 4\n[exit code 0]"


@pytest.mark.seed("JUT-04", fixed="the tool renders and caps before any preset sees the result")
def test_the_last_part_of_much_output_is_kept(context: ToolContext) -> None:
    result = use(SHELL_TOOL, context, command="seq 1 200000; exit 1")
    assert 255 * 1024 < len(result.text.encode()) <= 256 * 1024
    assert result.text.startswith("[1,")
    assert result.text.endswith("\n199999\n200000\n[exit code 1]")


def test_output_without_end_is_stopped(context: ToolContext, tmp_path: Path) -> None:
    taken: list[int] = []

    async def act() -> str:
        command = ["/bin/sh", "-c", "echo $$ > pid1; exec yes"]
        ran = await run_process_group(
            command,
            cwd=str(context.workspace),
            environment=context.environment,
            seconds=60,
            max_bytes=1_000_000,
            on_output=lambda data: taken.append(len(data)),
        )
        return ran.exceeded_limit

    assert asyncio.run(act()) == "output"
    assert 1_000_000 < sum(taken) < 3_000_000
    wait_until_gone(wait_for_pids(context.workspace, 1))


def test_no_key_reaches_a_command(context: ToolContext) -> None:
    seen = allowed_environment({"PATH": os.environ["PATH"], "OPENAI_API_KEY": "sk-1", "AWS_SECRET": "x", "HOME": "/h"})
    assert seen == {"PATH": os.environ["PATH"], "HOME": "/h"}
    os.environ["TIDEGATE_TEST_KEY"] = "sk-never"
    try:
        context = make_context(context.workspace.parent)
        text = use(SHELL_TOOL, context, command="env").text
    finally:
        del os.environ["TIDEGATE_TEST_KEY"]
    assert "sk-never" not in text
    names = {line.split("=")[0] for line in text.split("\n") if "=" in line}
    assert names <= {*context.environment, *shell_tool.QUIET_ENVIRONMENT, "PWD", "SHLVL", "_", "OLDPWD"}


def test_when_the_time_is_over_the_whole_family_ends(context: ToolContext) -> None:
    seconds, command = 1, "echo begun; rm -f pid*; " + FAMILY + "wait"
    result = use(SHELL_TOOL, context, command=command, timeout=seconds)
    while len(read_pids(context.workspace)) < 3:  # it was over before all of them had begun
        seconds *= 4
        result = use(SHELL_TOOL, context, command=command, timeout=seconds)
    assert result.is_error
    assert result.text.startswith(f"begun\n[stopped after {seconds} s")
    wait_until_gone(wait_for_pids(context.workspace, 3))


@pytest.mark.parametrize("times", [1, 2])
def test_when_it_is_cancelled_the_whole_family_ends(context: ToolContext, times: int) -> None:
    """Also for one who is impatient and closes the loop at once."""

    async def act() -> None:
        running = asyncio.create_task(SHELL_TOOL({"command": FAMILY + "wait"}, context))
        await asyncio.to_thread(wait_for_pids, context.workspace, 3)
        for _ in range(times):
            running.cancel()
            await asyncio.sleep(0.01)
        with pytest.raises(asyncio.CancelledError):
            await running

    asyncio.run(act())
    gc.collect()  # a pipe or a process that nobody closed says so here, not in some later test
    wait_until_gone(wait_for_pids(context.workspace, 3))


def test_who_cancels_twice_leaves_no_pipe_and_no_process(context: ToolContext) -> None:
    """The command does not hear. What was not closed says so when it is collected, which is an error here."""
    begun = asyncio.Event()

    async def act() -> None:
        command = ["bash", "-c", "trap '' TERM; echo $$ > pid1; echo begun; while true; do sleep 1; done"]
        folder = str(context.workspace)
        running = asyncio.create_task(
            run_process_group(
                command,
                cwd=folder,
                environment=context.environment,
                seconds=60,
                max_bytes=99,
                on_output=lambda _: begun.set(),
            )
        )
        await begun.wait()
        for _ in range(2):
            running.cancel()
            await asyncio.sleep(0)
        with pytest.raises(asyncio.CancelledError):
            await running

    asyncio.run(act())
    gc.collect()
    wait_until_gone(wait_for_pids(context.workspace, 1))


def test_what_is_left_in_the_background_ends_with_the_command(context: ToolContext) -> None:
    """Also if it holds the pipe: the result does not wait for it."""
    loud = "(echo $BASHPID > pid1; sleep 60) &"
    quiet = "(echo $BASHPID > pid2; sleep 60) >/dev/null 2>&1 &"
    both_begun = "until [ -s pid1 -a -s pid2 ]; do sleep 0.02; done"
    result = use(SHELL_TOOL, context, command=f"{loud} {quiet} {both_begun}; echo fin")
    assert result.text == "fin\n[exit code 0; what it left running was ended]"
    wait_until_gone(wait_for_pids(context.workspace, 2))


@pytest.mark.parametrize("arguments", [{"command": "a\0b"}, {"command": "x", "timeout": 0}, {"cmd": "ls"}, {}])
def test_arguments_that_are_none(context: ToolContext, arguments: dict[str, object]) -> None:
    assert use(SHELL_TOOL, context, **arguments).is_error


def test_a_workspace_that_is_gone_is_a_result(context: ToolContext) -> None:
    context.workspace.rmdir()
    assert "No such file" in use(SHELL_TOOL, context, command="ls").text


def test_a_command_of_any_characters(context: ToolContext) -> None:
    assert use(SHELL_TOOL, context, command="echo '字 \U0001f600'").text == "字 \U0001f600\n[exit code 0]"
    assert use(SHELL_TOOL, context, command="echo '\ud800'").is_error
