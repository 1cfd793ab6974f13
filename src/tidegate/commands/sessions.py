"""The slash commands about stored data: recall, notes, other sessions, costs, the trace and export.

Long logs are read in a thread or in small steps, so that the app never waits for them.
"""

import asyncio
import re
from functools import partial
from typing import Final

from tidegate.agent.config.settings import SpendCap
from tidegate.commands.actions import PickSession, ResumeSession
from tidegate.commands.operation_command import make_command, parse_arguments
from tidegate.commands.operations.export import EXPORT
from tidegate.commands.operations.fork import FORK
from tidegate.commands.operations.memory import MEMORY
from tidegate.commands.operations.recall import RECALL
from tidegate.commands.registry import Command, CommandAnswer, CommandContext
from tidegate.core.errors import BadInput
from tidegate.core.text.clip import clip_chars
from tidegate.core.text.plural import format_count
from tidegate.core.text.terminal_text import clean_line
from tidegate.datafolder.earlier_sessions import NOT_ALLOWED
from tidegate.datafolder.session_names import read_session_title
from tidegate.datafolder.time_format import format_time
from tidegate.datafolder.trace.lines import TraceLine, decode_trace_line
from tidegate.datafolder.workspaces import find_last_session
from tidegate.session.costs import CostReport, CostTotal
from tidegate.session.reports.recall_stats import count_recalls
from tidegate.store.store import SessionInfo

_EARLIER: Final = "@"
_TRACE_LINES: Final = 30
_MAX_SESSIONS: Final = 50
_MAX_TITLE_CHARS: Final = 60
_TRACE_TAIL_BYTES: Final = 256 * 1024
_RECORD_NUMBER: Final = re.compile(r"[me]?(\d{1,15})")
_SHOWN_FIELDS: Final = (
    "role name kind id stage rule model tokens input_tokens output_tokens cache_read before after why text".split()
)

_PURPOSE_NAMES: Final = {
    "turn": "answers",
    "summary": "summaries",
    "state_note": "state notes",
    "subagent": "sub-agents",
    "interrupted": "interrupted answers",
    "compaction": "compactions by the provider",
}


RECALL_COMMAND: Final = make_command(
    RECALL,
    "read messages that left the window; with @NAME or @*, those of earlier sessions here",
    usage="[@NAME] WORDS|ID|ID..ID",
)


async def run_recall(context: CommandContext, arguments: str) -> CommandAnswer:
    """Read this session, or with @ earlier ones of the project, if the user allows it."""
    if not arguments.startswith(_EARLIER):
        return await RECALL_COMMAND.run(context, arguments)
    values = parse_arguments(RECALL, arguments.removeprefix(_EARLIER))
    earlier = context.require_agent().agent.context.earlier_sessions
    if earlier is None:
        return CommandAnswer(NOT_ALLOWED, True)
    session, words = values.what[0], " ".join(values.what[1:])
    recall = partial(earlier.recall, words, session, current=context.session_name, offset=values.offset)
    return CommandAnswer(await asyncio.to_thread(recall))


# --- sessions ---------------------------------------------------------------------------------------------------------


async def run_sessions(context: CommandContext, arguments: str) -> CommandAnswer:
    return CommandAnswer(await asyncio.to_thread(_list_sessions, context, arguments))


def _list_sessions(context: CommandContext, words: str = "") -> str:
    """List the sessions whose names contain `words`, the latest first, with their titles."""
    data = context.require_data()
    found = [each for each in data.store.sessions() if words.casefold() in each.name.casefold()]
    if not found:
        return "No session has such a name." if words else "No sessions are stored here yet."
    lines = [
        _format_session(each, read_session_title(data, each.name), is_current=each.name == context.session_name)
        for each in found[:_MAX_SESSIONS]
    ]
    return "\n".join([*lines, *([f"and {len(found) - _MAX_SESSIONS} more"] if len(found) > _MAX_SESSIONS else [])])


def _format_session(info: SessionInfo, title: str, *, is_current: bool) -> str:
    mark = "  (this one)" if is_current else ""
    short_title = clip_chars(title, _MAX_TITLE_CHARS, mode="head", notice="…").text
    return (
        f"{format_time(info.used):16}  {info.head:>7,} records  {clean_line(info.name)}{mark}  {short_title}".rstrip()
    )


async def run_resume(context: CommandContext, arguments: str) -> CommandAnswer:
    if not arguments:
        return CommandAnswer(await asyncio.to_thread(_list_sessions, context), action=PickSession())
    context.require_idle()
    names = [each.name for each in context.require_data().store.sessions()]
    if arguments == "last" and arguments not in names:
        arguments = _find_last(context)
    like = [name for name in names if arguments.casefold() in name.casefold()]
    if arguments not in names and len(like) != 1:
        raise BadInput(
            f"{len(like) or 'No'} sessions have {arguments[:80]} in their names.",
            "Give the whole name; /sessions lists them.",
        )
    name = arguments if arguments in names else like[0]
    line = clean_line(name)
    return (
        CommandAnswer(f"This is {line} already.")
        if name == context.session_name
        else CommandAnswer(f"Continuing in {line}.", action=ResumeSession(name))
    )


def _find_last(context: CommandContext) -> str:
    workspace = context.require_agent().agent.context.workspace
    last = find_last_session(context.require_data(), workspace, other_than=context.session_name)
    if not last:
        raise BadInput("This folder has no other session.", "/sessions lists those of all folders.")
    return last


# --- what happened ----------------------------------------------------------------------------------------------------


async def run_cost(context: CommandContext, arguments: str) -> CommandAnswer:
    """Show the cost of the session; with an agent, also that of the day and the caps."""
    lines = await _list_session_costs(context)
    if context.agent is not None:
        spending = context.agent.spending
        today, caps = spending.day_total, [("session", spending.caps.session), ("day", spending.caps.day)]
        lines.append(f"today, all sessions: {today.tokens:,} tokens, ${today.dollars:,.4f}")
        lines += [f"cap of the {name}: {_format_cap(cap)}" for name, cap in caps if cap != SpendCap()]
    return CommandAnswer("\n".join(lines))


async def _list_session_costs(context: CommandContext) -> list[str]:
    report = CostReport(context.session.log, context.model_overrides)
    while report.read_more():
        await asyncio.sleep(0)  # a long log must not block the app
    if not report.total.calls and not report.total.side_tokens:
        return ["No requests yet."]
    lines = [f"{clean_line(name)}: {_format_cost(each)}" for name, each in report.by_model.items()]
    lines += [f"in all: {_format_cost(report.total)}"] if len(lines) > 1 else []
    lines += [
        f"  {_PURPOSE_NAMES.get(purpose, 'other')}: {each.tokens:,} tokens{_format_dollars(each)}"
        for purpose, each in report.by_purpose.items()
        if len(report.by_purpose) > 1
    ]
    recalls = await asyncio.to_thread(count_recalls, context.session.log)
    return [*lines, *([str(recalls)] if recalls.any else [])]


def _format_dollars(total: CostTotal) -> str:
    return f", ${total.dollars:,.4f}" if total.unpriced_tokens < total.tokens else ""


def _format_cap(cap: SpendCap) -> str:
    dollars = [f"${cap.dollars:,.2f}"] if cap.dollars is not None else []
    return ", ".join([*dollars, *([f"{cap.tokens:,} tokens"] if cap.tokens is not None else [])])


def _format_cost(total: CostTotal) -> str:
    calls = format_count(total.calls, "call")
    parts = [calls, f"{total.input_tokens:,} tokens read ({total.cached_share:.0%} from the cache)"]
    parts += [f"{total.output_tokens:,} written"]
    parts += [f"{total.side_tokens:,} outside of answers"] if total.side_tokens else []
    if total.unpriced_tokens < total.tokens:
        parts.append(f"${total.dollars:,.4f}")
    if total.unpriced_tokens:
        parts.append(f"the price of {total.unpriced_tokens:,} tokens is not known")
    return ", ".join(parts)


async def run_trace(context: CommandContext, arguments: str) -> CommandAnswer:
    """Show the end of the trace. The file has all of it."""
    if arguments and not arguments.isdecimal():
        return CommandAnswer("Type the number of lines: /trace 50.", True)
    path = context.require_data().trace_path(context.session_name)
    try:
        with path.open("rb") as file:
            file.seek(max(0, path.stat().st_size - _TRACE_TAIL_BYTES))
            data = file.read()
    except OSError:
        return CommandAnswer("There is no trace yet.", True)
    found = [line for line in map(decode_trace_line, data.splitlines(keepends=True)) if line is not None]
    return CommandAnswer(
        "\n".join([*map(_format_trace_line, found[-min(int(arguments or _TRACE_LINES), 500) :]), f"all of it: {path}"])
    )


def _format_trace_line(line: TraceLine) -> str:
    shown = {name: getattr(line, name) for name in _SHOWN_FIELDS if getattr(line, name) not in (None, "")}
    when = format_time(line.time, "%H:%M:%S")
    fields = clean_line(" ".join(f"{key}={value}" for key, value in shown.items()))
    return f"{line.seq:>6} {when} {line.event} {fields}".rstrip()


def _session_names(context: CommandContext | None) -> list[str]:
    return (
        [each.name for each in context.data.store.sessions()]
        if context is not None and context.data is not None
        else []
    )


SESSION_COMMANDS: Final = (
    RECALL_COMMAND._replace(run=run_recall),
    make_command(MEMORY, "the notes; search them and all sessions", usage="[search WORDS|show NOTE]")._replace(
        completions=lambda _: ("search ", "show ", "list")
    ),
    Command("sessions", "the stored sessions, the latest first", run_sessions, "[WORDS]"),
    Command("resume", "switch to another session", run_resume, "[NAME|last]", ("open",), _session_names),
    make_command(
        FORK,
        "continue in a copy of this session, as it was at some record",
        then="Continuing in it.",
        make_action=lambda name: ResumeSession(str(name)),
    ),
    Command("cost", "the cost, by model", run_cost, aliases=("usage",)),
    Command("trace", "the latest events", run_trace, "[LINES]"),
    make_command(EXPORT, "this session as one file, secrets masked, or a handoff to read", usage="[FILE] [--handoff]"),
)
