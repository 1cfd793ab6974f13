"""The slash commands about stored data: recall, notes, other sessions, costs, the trace and export.

Long logs are read in a thread or in small steps, so that the app never waits for them.
"""

import asyncio
from functools import partial
from typing import Final

from tidegate.agent.config.settings import SpendCap
from tidegate.commands.actions import PickSession, ResumeSession
from tidegate.commands.operation_command import make_command, parse_arguments
from tidegate.commands.operations.export import EXPORT
from tidegate.commands.operations.fork import FORK
from tidegate.commands.operations.memory import MEMORY
from tidegate.commands.operations.recall import RECALL
from tidegate.commands.operations.sessions import SESSIONS
from tidegate.commands.operations.trace import TRACE
from tidegate.commands.registry import Command, CommandAnswer, CommandContext
from tidegate.core.errors import BadInput
from tidegate.core.text.plural import format_count
from tidegate.core.text.terminal_text import clean_line
from tidegate.datafolder.earlier_sessions import NOT_ALLOWED
from tidegate.datafolder.workspaces import find_last_session
from tidegate.session.costs import CostReport, CostTotal
from tidegate.session.reports.recall_stats import count_recalls

_EARLIER: Final = "@"
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


SESSIONS_COMMAND: Final = make_command(SESSIONS, "the stored sessions, the latest first")


async def run_resume(context: CommandContext, arguments: str) -> CommandAnswer:
    if not arguments:
        return (await SESSIONS_COMMAND.run(context, ""))._replace(action=PickSession())
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
    SESSIONS_COMMAND,
    Command("resume", "switch to another session", run_resume, "[NAME|last]", ("open",), _session_names),
    make_command(
        FORK,
        "continue in a copy of this session, as it was at some record",
        then="Continuing in it.",
        make_action=lambda _, name: ResumeSession(str(name)),
    ),
    Command("cost", "the cost, by model", run_cost, aliases=("usage",)),
    make_command(TRACE, "the latest events"),
    make_command(EXPORT, "this session as one file, secrets masked, or a handoff to read", usage="[FILE] [--handoff]"),
)
