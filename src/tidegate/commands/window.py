"""The slash commands about the window: what fills it, compacting it, undoing that, and rules."""

import asyncio
import math
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Final

from tidegate.commands.operation_command import make_command
from tidegate.commands.operations.clear import CLEAR
from tidegate.commands.operations.undo import REDO, UNDO
from tidegate.commands.registry import Command, CommandAnswer, CommandContext
from tidegate.core.ledger.lines import LedgerLine
from tidegate.core.ledger.writer import PIN
from tidegate.core.messages import user_message
from tidegate.core.notes import FocusGiven
from tidegate.core.plan import Decision
from tidegate.core.text.plural import format_count
from tidegate.session.explanation import forecast_sweep
from tidegate.session.reports.forecast import RuleForecast, Threshold, forecast_rules
from tidegate.session.reports.state_note_report import StateNoteReport
from tidegate.session.reports.window_usage import CategoryUsage, WindowUsage, measure_window_usage
from tidegate.session.session import Session

_MAX_MESSAGES: Final = 12
"""Messages that `/context` lists one by one."""
_MOMENT_DESCRIPTIONS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "tool_result": "when a tool result arrives",
        "turn_start": "when you have sent a message",
        "before_call": "before each request",
        "turn_end": "when a turn is over",
        "overflow": "when the provider refuses a request because of its length",
        "manual": "on /compact",
        "restore": "when the session is opened again",
    }
)
_MOMENTS_OF_AN_EVENT: Final = ("overflow", "manual", "restore")


async def run_context(context: CommandContext, arguments: str) -> CommandAnswer:
    if arguments == "clear":
        return await make_command(CLEAR).run(context, "")
    if arguments:
        return CommandAnswer("Type /context, or /context clear.", True)
    usage = measure_window_usage(
        context.session,
        prompt_parts=context.prompt_parts,
        model_overrides=context.model_overrides,
        max_messages=_MAX_MESSAGES,
    )
    return CommandAnswer(
        "\n".join(
            [
                *_format_size(usage),
                "",
                *_format_roles(usage),
                "",
                *_format_categories(usage),
                "",
                *_format_thresholds(usage),
                *_format_largest(usage),
            ]
        )
    )


def _format_size(usage: WindowUsage) -> list[str]:
    window = f", window {usage.window:,}" if usage.window else ""
    unknown = "; the model's window is not known, this limit is assumed" if usage.window_is_assumed else ""
    first = f"context: {usage.tokens:,} of {usage.capacity:,} tokens, {usage.used_share:.0%}{window}{unknown}"
    if usage.ignored_report:
        return [first, f"the last usage report ({usage.ignored_report:,} tokens) cannot be true: this is an estimate"]
    if not usage.reported_tokens:
        return [first, "no usage report for this context yet: this is an estimate"]
    return [
        first,
        f"last call: {usage.reported_tokens:,} tokens reported; since then"
        f" {usage.tokens - usage.reported_tokens:,} (estimated)",
    ]


def _format_roles(usage: WindowUsage) -> list[str]:
    roles = usage.roles
    sizes = [("user", roles.user), ("assistant", roles.assistant), ("tool", roles.tool), ("system", roles.system)]
    return [
        f"messages: {roles.total:,}",
        f"by role: {', '.join(f'{name} {count:,}' for name, count in sizes)}",
        f"characters: {roles.characters:,}",
    ]


def _format_categories(usage: WindowUsage) -> list[str]:
    rows = [(each.name, each) for each in usage.categories]
    width = max((len(name) for name, _ in rows), default=0)
    lines = [
        f"{name:{width}}  {each.tokens:>9,}  {_percent(each, usage):>6}{_money(each.dollars)}" for name, each in rows
    ]
    return [*lines, f"{'in all':{width}}  {usage.tokens:>9,}"]


def _percent(share: CategoryUsage, usage: WindowUsage) -> str:
    return f"{share.tokens / usage.tokens:.1%}" if usage.tokens else ""


def _money(dollars: float | None) -> str:
    return "" if dollars is None else f"  ${dollars:.5f} a call"


def _format_thresholds(usage: WindowUsage) -> list[str]:
    lines = ["thresholds:", *dict.fromkeys(map(_format_threshold, usage.thresholds))]
    if usage.next_threshold is not None:
        lines.append(f"next: {_rule_name(usage.next_threshold)}{_format_distance(usage.next_threshold)}")
    return lines


def _format_threshold(threshold: Threshold) -> str:
    if threshold.moment in _MOMENTS_OF_AN_EVENT:  # no size brings them about
        return f"  {_rule_name(threshold)}: only {_MOMENT_DESCRIPTIONS[threshold.moment]}"
    return f"  {_rule_name(threshold)}: {threshold}{_format_distance(threshold)}"


def _rule_name(threshold: Threshold | RuleForecast) -> str:
    """Return the moment and the name of a rule, which may begin with the moment."""
    return f"{threshold.moment}/{threshold.rule.removeprefix(f'{threshold.moment}/')}"


def _format_distance(threshold: Threshold) -> str:
    if threshold.is_due:
        return ", due"
    parts = [f"{threshold.tokens_away:,} tokens away"] if threshold.tokens_away is not None else []
    if threshold.turns_away is not None:
        turns = math.ceil(threshold.turns_away)
        parts.append(f"about {format_count(turns, 'turn')}")
    return f", {', '.join(parts)}" if parts else ""


def _ago(turns: int) -> str:
    return "this turn" if not turns else f"{turns} turn{'s' * (turns > 1)} ago"


def _format_largest(usage: WindowUsage) -> list[str]:
    if not usage.messages:
        return []
    lines = ["", "the largest messages:"]
    for each in sorted(usage.messages, key=lambda piece: -piece.tokens):
        name = f"{each.category} {each.tool}".rstrip()
        lines.append(
            f"  {each.id} {name}: {each.tokens:,} tokens, {_ago(each.turns_ago)}{_money(each.dollars)}; {each.reason}"
        )
    return [*lines, f"  and {usage.omitted_count:,} more"] if usage.omitted_count else lines


# --- doing and undoing ------------------------------------------------------------------------------------------------


async def run_compact(context: CommandContext, arguments: str) -> CommandAnswer:
    context.require_idle()
    session, before = context.session, context.session.tokens
    if arguments:
        session.history.append_note(FocusGiven(arguments))
    decisions = await session.compact_async(context.summarizer, focus=arguments)
    acted = [each for each in decisions if each.acted]
    if not acted:
        return CommandAnswer(_explain_no_compaction(session, decisions), True)
    lines = [f"Request: {before:,} -> {session.tokens:,} tokens. /undo takes it back."]
    lines += [
        f"{each.stage}: the history {each.tokens_before:,} -> {each.tokens_after:,} tokens. {each.reason}"
        for each in acted
    ]
    if arguments and context.summarizer is None:
        lines.append("No model writes summaries here, so the focus had no effect.")
    return CommandAnswer("\n".join(lines))


def _explain_no_compaction(session: Session, decisions: Sequence[Decision]) -> str:
    """Say why nothing was compacted, and what would help."""
    turns, room = session.view.visible_turns, session.budget.room
    size = f"The history has {session.view.tokens:,} tokens, and {room:,} fit."
    clear = "/context clear empties the view; everything stays in the log."
    if not decisions:
        return f"Nothing was compacted: the policy {session.policy.name} has no rule for it. {size} {clear}"
    if turns <= 1:
        what = "there is only the current turn, and it stays whole" if turns else "there is no turn yet"
        later = f" When the room is full, the policy makes it fit by itself. {clear}" if turns else ""
        return f"Nothing was compacted: {what}. {size}{later}"
    why = " ".join(dict.fromkeys(each.reason for each in decisions))
    return f"Nothing was compacted. {why} {size} /policy NAME chooses a policy that keeps less. {clear}"


async def run_pin(context: CommandContext, arguments: str) -> CommandAnswer:
    context.require_idle()
    return CommandAnswer(f"Pinned as {context.session.rules.add(arguments)}: it stays, word for word.")


async def run_pins(context: CommandContext, arguments: str) -> CommandAnswer:
    """List the rules of the session first: `remove` takes their numbers."""
    rules = list(context.session.rules)
    action, _, number = arguments.partition(" ")
    if action == "remove":
        return _remove_rule(context, rules, number.strip())
    if arguments:
        return CommandAnswer("Type /pins, or /pins remove NUMBER.", True)
    sources = [f"pinned by you in {line.ident}" if line.what == PIN else f"typed in {line.ident}" for line in rules]
    pins = [(line.text, source) for line, source in zip(rules, sources, strict=True)]
    pins += [(text, "in the configuration, `rules`") for text in context.rules]
    lines = (f"{number}. {text}  ({source})" for number, (text, source) in enumerate(pins, 1))
    return CommandAnswer("\n".join(lines) or "There are no rules. /pin TEXT adds one.")


def _remove_rule(context: CommandContext, rules: Sequence[LedgerLine], number: str) -> CommandAnswer:
    context.require_idle()
    index = int(number) if number.isdecimal() and len(number) < 6 else 0
    if len(rules) < index <= len(rules) + len(context.rules):
        return CommandAnswer(
            "That rule is in the configuration. Remove it from `rules` there; /config shows the file.", True
        )
    if not 0 < index <= len(rules):
        return CommandAnswer(
            f"There is no rule {number[:20] or 'without a number'}. /pins lists them with numbers.", True
        )
    text = rules[index - 1].text
    context.session.rules.remove(text)
    return CommandAnswer(f"Removed: {text}\n/undo takes that back.")


async def run_state(context: CommandContext, arguments: str) -> CommandAnswer:
    """Show the state note, or take a correction of it: as the user's words, which the next note takes up."""
    session = context.session
    if arguments:
        context.require_idle()
        ident = session.add(user_message(f"Correction of the state of the work: {arguments}", typed=True))[0]
        return CommandAnswer(f"Added as {ident}, in your words. The next state note takes it up.")
    writer = session.state_notes.writer
    if writer is not None and not context.is_busy:
        writer.collect()
    report = await asyncio.to_thread(StateNoteReport, session.log)
    busy = ["A note is being written."] if writer is not None and writer.is_busy else []
    return CommandAnswer("\n".join([*report.lines(), *busy]))


async def run_explain(context: CommandContext, arguments: str) -> CommandAnswer:
    session = context.session
    lines = [f"The policy {session.policy.name} is in use; the next request has {session.tokens:,} tokens."]
    lines += session.budget.explain()
    coming = forecast_sweep(session.policy, session.view, session.budget, session.parts.live.clock())
    lines += [str(coming)] if coming is not None else []
    moment = ""
    for each in forecast_rules(session):
        if each.moment != moment:
            moment = each.moment
            lines.append(f"{moment} ({_MOMENT_DESCRIPTIONS[moment]}):")
        lines += _format_forecast(each)
        await asyncio.sleep(0)  # a rule takes a while in a large view
    if session.state_notes.newest is not None:
        lines += ["", *(await asyncio.to_thread(StateNoteReport, session.log)).lines()]
        lines.append("/recall ID shows a message that a line cites; /state CORRECTION corrects the note.")
    return CommandAnswer("\n".join(lines))


def _format_forecast(each: RuleForecast) -> Iterable[str]:
    verdict = "would run" if each.fires else "would not run"
    yield f"  {each.rule.removeprefix(f'{each.moment}/')}: {verdict}. {each.reason}"
    then = "It would" if each.fires else "If it ran, it would"
    if each.no_effect_reason:
        yield f"    {then} change nothing. {each.no_effect_reason}"
        return
    effects = [f"take {_ids(each.removed_ids)} out"] if each.removed_ids else []
    effects += [f"shorten {_ids(each.shortened_ids)}"] if each.shortened_ids else []
    effects += (
        [f"have a summary written of {format_count(each.summarized_messages, 'message')}"]
        if each.summarized_messages
        else []
    )
    effects += [f"save to {where} first" for where in dict.fromkeys(each.save_targets)]
    yield f"    {then} {', '.join(effects) or 'add to the view'} and free {each.freed_tokens:,} tokens."
    if each.sweep_arithmetic:
        yield f"    {each.sweep_arithmetic}"


def _ids(ids: tuple[str, ...]) -> str:
    return ids[0] if len(ids) == 1 else f"{len(ids)} messages ({ids[0]} to {ids[-1]})"


WINDOW_COMMANDS: Final = (
    Command(
        "context", "what fills the window; clear empties it", run_context, "[clear]", ("ctx",), lambda _: ("clear",)
    ),
    Command("compact", "compact now; a summary keeps FOCUS", run_compact, "[FOCUS]"),
    make_command(UNDO),
    make_command(REDO),
    Command("pin", "add a rule that is always kept, word for word", run_pin, "TEXT"),
    Command(
        "pins",
        "the rules and where they come from",
        run_pins,
        "[remove NUMBER]",
        completions=lambda _: ("remove ",),
    ),
    Command("state", "the state note that the model wrote; CORRECTION corrects it", run_state, "[CORRECTION]"),
    Command(
        "explain",
        "each rule of the policy: what it would do now, and why",
        run_explain,
        aliases=("why",),
    ),
)
