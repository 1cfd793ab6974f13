"""The output of `tidegate run`: text for people, or a line of JSON for each event."""

import json
import sys
from collections.abc import Callable
from typing import Any

from tidegate.agent.hooks.runner import HookReport
from tidegate.agent.loop import (
    AgentEvent,
    RequestRefused,
    RequestSent,
    ToolFinished,
    ToolStarted,
    TurnEnded,
    UserSteered,
)
from tidegate.agent.runtime import OpenAgent, UserNotice
from tidegate.core.text.terminal_text import clean_line
from tidegate.models.provider import Delta, Reply
from tidegate.session.costs import CostReport
from tidegate.terminal.output import TextSanitizer
from tidegate.terminal.stream_masker import StreamMasker
from tidegate.wire.answers import read_usage

EventPrinter = Callable[[AgentEvent | UserNotice], None]


def print_greeting(text: str, *, as_json: bool) -> None:
    """Print the greeting if the output is a terminal. A pipe gets only the answer."""
    if text and as_json:
        print_json_line({"type": "greeting", "text": text})
    elif text and sys.stderr.isatty():
        print(text, file=sys.stderr)


def create_text_printer(name: str, sanitize: TextSanitizer) -> EventPrinter:
    """Return a printer of the model's text, as it arrives, to standard output, and of all notices to standard error."""
    if sys.stderr.isatty():
        print(f"session {clean_line(name)}", file=sys.stderr)
    masker, last = StreamMasker(sanitize), "\n"

    def show(each: AgentEvent | UserNotice) -> None:
        nonlocal last
        text = masker.feed(each.text) if isinstance(each, Delta) and each.kind == "text" else ""
        if isinstance(each, Reply | RequestRefused):
            text = masker.flush()
            text += "" if (text or last).endswith("\n") else "\n"
        if text:
            last = text[-1]
            print(text, end="", flush=True)
        if isinstance(each, UserNotice):
            print(f"tidegate: {sanitize(each.text)}", file=sys.stderr)
        elif isinstance(each, HookReport) and (each.is_error or each.action == "log"):
            print(f"tidegate: hook {each.hook_id}: {sanitize(each.text)}", file=sys.stderr)

    return show


def create_json_printer(name: str) -> EventPrinter:
    """Return a printer of every event as a line of JSON."""
    print_json_line({"type": "session", "name": name})
    return lambda each: print_json_line(encode_agent_event(each))


class RunResult:
    """The outcome of a run, for the last line of its JSON: the text of the last reply, and what the run used."""

    def __init__(self, agent: OpenAgent) -> None:
        session = agent.session
        self._costs = CostReport(session.log, agent.connection.model_overrides, start=session.log.head)
        self._text = ""
        self.reason = ""

    def add_event(self, each: AgentEvent | UserNotice) -> None:
        if isinstance(each, RequestSent):
            self._text = ""
        elif isinstance(each, Delta) and each.kind == "text":
            self._text += each.text
        elif isinstance(each, TurnEnded):
            self.reason = each.reason

    def encode(self) -> dict[str, Any]:
        """`cost` is in dollars; null if no price of a model that was asked is known."""
        total = self._costs.read_all()
        usage = {
            "calls": total.calls,
            "input_tokens": total.input_tokens,
            "cached_tokens": total.cached_tokens,
            "output_tokens": total.output_tokens,
            "side_tokens": total.side_tokens,
        }
        cost = None if total.unpriced_tokens and not total.dollars else total.dollars
        return {"type": "result", "why": self.reason, "text": self._text, "usage": usage, "cost": cost}


def print_json_line(fields: dict[str, Any]) -> None:
    print(json.dumps(fields), flush=True)  # ASCII: a stream cut in the middle of a character stays readable


def encode_agent_event(each: AgentEvent | UserNotice) -> dict[str, Any]:
    """Return the documented JSON object of an event."""
    match each:
        case RequestSent(request, decisions):
            acted = [
                {
                    "rule": one.rule,
                    "stage": one.stage,
                    "before": one.tokens_before,
                    "after": one.tokens_after,
                    "why": one.reason,
                }
                for one in decisions
                if one.acted
            ]
            return {"type": "asked", "tokens": request.tokens, "decisions": acted}
        case Delta(kind, text, index):
            return {"type": kind, "text": text} if kind != "call" else {"type": "call", "text": text, "index": index}
        case Reply():
            return {"type": "reply", "stop": each.stop, "usage": read_usage(each.usage)._asdict(), "model": each.model}
        case ToolStarted(call):
            return {"type": "began", "id": call.id, "name": call.name, "arguments": call.arguments}
        case ToolFinished(call, result):
            fields = {"type": "ended", "id": call.id, "name": call.name, "text": result.text, "error": result.is_error}
            return {**fields, "denied_by": result.denied_by} if result.denied_by else fields
        case RequestRefused(fault):
            return {"type": "refused", "kind": fault.kind, "text": fault.args[0]}
        case UserSteered(text):
            return {"type": "steered", "text": text}
        case HookReport(hook, action, text, error):
            return {"type": "hook", "hook": hook, "action": action, "text": text, "error": error}
        case UserNotice(text):
            return {"type": "notice", "text": text}
        case TurnEnded(why):
            return {"type": "stopped", "why": why}
