"""The slash commands about the project: the plan mode, a file with instructions, and what the session changed."""

import asyncio
import os
from pathlib import Path
from typing import Final

from tidegate.agent.tools.files.file_change import FileChange, compare_lines, find_file_change
from tidegate.commands.actions import SetPlanMode
from tidegate.commands.registry import Command, CommandAnswer, CommandContext
from tidegate.core.errors import BadInput
from tidegate.core.events import MessageAdded
from tidegate.core.messages import Call, Result
from tidegate.core.text.terminal_text import clean_line, clean_text
from tidegate.store.log import LogReader

PROJECT_FILE: Final = "AGENTS.md"
_MAX_LINES: Final = 60
"""Lines of the diff of one file that are shown; `/review FILE` shows all."""
_COMMANDS_BY_FILE: Final = {
    "Makefile": ("make", "make test"),
    "pyproject.toml": ("python -m pytest", "ruff check ."),
    "package.json": ("npm install", "npm test"),
    "Cargo.toml": ("cargo build", "cargo test"),
    "go.mod": ("go build ./...", "go test ./..."),
}
_HIDDEN_PREFIXES: Final = (".", "__")


async def run_plan(context: CommandContext, arguments: str) -> CommandAnswer:
    """Switch the plan mode: only tools that read may run until it is off.

    Without an argument it is switched on, never off: approving a plan takes the word `off`.
    """
    context.require_idle()
    was_on = context.require_agent().agent.toolbox.plan_mode
    if arguments not in ("", "on", "off"):
        raise BadInput(
            f"/plan takes on or off, not {arguments[:80]}.",
            f"Plan mode is {'on: /plan off approves the plan' if was_on else 'off: /plan on starts it'}.",
        )
    on = arguments != "off"
    if on:
        already = " already" if was_on else ""
        text = (
            f"Plan mode is on{already}: the agent can read and search, and nothing else. Ask for a plan; /plan off"
            " approves it and lets the agent work."
        )
    elif was_on:
        text = "Plan mode is off: the agent may work again, and asks as before. /plan starts it again."
    else:
        text = "Plan mode is off, as before. /plan starts it."
    return CommandAnswer(text, action=SetPlanMode(on))


# --- the project's file -----------------------------------------------------------------------------------------------


async def run_init(context: CommandContext, arguments: str) -> CommandAnswer:
    """Write a file with instructions for agents. It is never overwritten."""
    workspace = context.require_agent().agent.context.workspace
    text = await asyncio.to_thread(draft_project_file, workspace)
    try:
        descriptor = os.open(workspace / PROJECT_FILE, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o644)
    except FileExistsError:
        raise BadInput(f"{PROJECT_FILE} exists already.", "Edit it; the next session reads it.") from None
    with open(descriptor, "w", encoding="utf-8") as file:
        file.write(text)
    return CommandAnswer(f"{PROJECT_FILE} is written; the next session reads it. Correct it as needed:\n\n{text}")


def draft_project_file(workspace: Path) -> str:
    """Return instructions from what is in the folder: its parts, and the usual commands of its tools."""
    names = sorted(each.name for each in workspace.iterdir() if not each.name.startswith(_HIDDEN_PREFIXES))
    folders = [name for name in names if (workspace / name).is_dir()]
    commands = [
        command for file, file_commands in _COMMANDS_BY_FILE.items() if file in names for command in file_commands
    ]
    sections = [
        f"# {clean_line(workspace.resolve().name)}\n\nInstructions for agents that work in this project.",
        "## Commands\n\n" + ("\n".join(f"- `{command}`" for command in commands) or "- (how to build and test)"),
        "## Layout\n\n" + ("\n".join(f"- `{clean_line(name)}/`" for name in folders[:30]) or "- (what is where)"),
        "## Rules\n\n- Run the tests before you say that something works.",
    ]
    return "\n\n".join(sections) + "\n"


# --- what the session changed -----------------------------------------------------------------------------------------


async def run_review(context: CommandContext, arguments: str) -> CommandAnswer:
    """List the files that calls of this session edited, with the diffs in order."""
    changes = await asyncio.to_thread(read_file_changes, context.session.log)
    matching = {path: file_changes for path, file_changes in changes.items() if arguments in path}
    if not matching:
        return CommandAnswer("No file with such a name was edited." if arguments else "No file was edited here.")
    most = None if arguments else _MAX_LINES
    return CommandAnswer(
        "\n\n".join(_format_changes(path, file_changes, most) for path, file_changes in matching.items())
    )


def read_file_changes(log: LogReader) -> dict[str, list[FileChange]]:
    """Return the changes of calls that did not fail, by file, in the order of the log."""
    pending: dict[str, FileChange] = {}
    changes: dict[str, list[FileChange]] = {}
    for event in log.read():
        parts = event.payload.message.parts if isinstance(event.payload, MessageAdded) else ()
        for part in parts:
            if isinstance(part, Call) and (change := find_file_change(part.name, part.arguments)) is not None:
                pending[part.id] = change
            elif isinstance(part, Result) and (edit := pending.pop(part.call_id, None)) is not None and not part.error:
                changes.setdefault(edit.path, []).append(edit)
    return changes


def _format_changes(path: str, changes: list[FileChange], most: int | None) -> str:
    diffs = [compare_lines(change) for change in changes]
    additions, removals = sum(diff.added for diff in diffs), sum(diff.removed for diff in diffs)
    times = f"{len(diffs)} edits" if len(diffs) > 1 else "1 edit"
    lines = [f"  {mark} {clean_text(text)}" for diff in diffs for mark, text in diff.lines]
    left = len(lines) - most if most is not None else 0
    more = [f"  … {left:,} more lines: /review {clean_line(path)}"] if left > 0 else []
    return "\n".join([f"{clean_line(path)}  +{additions:,} -{removals:,}  ({times})", *lines[:most], *more])


PROJECT_COMMANDS: Final = (
    Command(
        "plan",
        "only tools that read run, until you approve the plan with /plan off",
        run_plan,
        "[on|off]",
        completions=lambda _: ["on", "off"],
    ),
    Command("review", "the files that this session changed, with diffs", run_review, "[FILE]", ("diff",)),
    Command("init", "write AGENTS.md, which tells agents about this project", run_init),
)
