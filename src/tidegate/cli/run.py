"""`tidegate run`: one turn of an agent, for scripts. Nothing but text and line ends is ever printed."""

import argparse
import asyncio
import json
import os
import sys
import time
from collections.abc import Callable
from contextlib import aclosing
from pathlib import Path
from typing import Any

from tidegate.agent.config.launch import LoadedConfig
from tidegate.agent.config.resolved_config import collect_secret_values
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
from tidegate.agent.runtime import UserNotice, open_agent
from tidegate.cli.config import load_chosen_config
from tidegate.cli.data_location import locate_data_folder
from tidegate.cli.options import STORE_VARIABLE
from tidegate.core.errors import BadInput, TidegateError
from tidegate.core.messages import Message, user_message
from tidegate.core.text.secrets import keys_of
from tidegate.core.text.terminal_text import clean_line
from tidegate.datafolder.data_folder import DataFolder
from tidegate.models.provider import Delta, Reply
from tidegate.terminal.exit_codes import EXIT_FAILED, EXIT_OK
from tidegate.terminal.output import TextSanitizer, print_error
from tidegate.terminal.signals import run_until_signal
from tidegate.terminal.stream_masker import StreamMasker
from tidegate.wire.usage import read_usage

EventPrinter = Callable[[AgentEvent | UserNotice], None]


def run_command(options: argparse.Namespace) -> int:
    task = sys.stdin.read() if options.task == "-" else options.task
    if not task.strip():
        raise BadInput("The task is empty.", 'Say what to do: tidegate run "..."')
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(errors="replace")  # type: ignore[union-attr] # they are text files
    found = load_chosen_config(options)
    name = options.session or make_session_name(found)
    secrets = [*keys_of(os.environ), *collect_secret_values(found.config, os.environ)]
    store = options.store or os.environ.get(STORE_VARIABLE, "")
    data = DataFolder(locate_data_folder(options), store=store, secrets=secrets)
    try:
        message = user_message(task, typed=options.task != "-")
        return asyncio.run(run_until_signal(_run_turn(found, data, name, message, as_json=options.json)))
    except TidegateError as failure:
        if options.json:
            _print_json_line({"type": "error", "error": failure.args[0], "remedy": failure.remedy})
        raise
    finally:
        data.close()


def make_session_name(found: LoadedConfig) -> str:
    """The app's, with the time, which sorts, and the process, which tells two of the same second apart."""
    return f"{found.config.settings.app.app_id}-{time.strftime('%Y%m%d-%H%M%S')}-{os.getpid()}"


async def _run_turn(found: LoadedConfig, data: DataFolder, name: str, task: Message, *, as_json: bool) -> int:
    show = create_json_printer(name) if as_json else create_text_printer(name, TextSanitizer(data.mask))
    why = ""
    async with open_agent(
        found.config, data=data, name=name, workspace=Path.cwd(), specialists=found.specialists
    ) as agent:
        agent.notices += found.problems
        print_greeting(TextSanitizer(data.mask)(agent.greeting), as_json=as_json)
        async with aclosing(agent.run_turn(task)) as turn:
            async for each in turn:
                show(each)
                why = each.reason if isinstance(each, TurnEnded) else why
    if why in ("end", "unknown"):
        return EXIT_OK
    if not as_json:
        print_error(f"not finished: {why}", f"go on with --session {name}.")
    return EXIT_FAILED


def print_greeting(text: str, *, as_json: bool) -> None:
    """For people who look on: what goes into a pipe is the answer alone."""
    if text and as_json:
        _print_json_line({"type": "greeting", "text": text})
    elif text and sys.stderr.isatty():
        print(text, file=sys.stderr)


def create_text_printer(name: str, shown: TextSanitizer) -> EventPrinter:
    """The model's words on standard output, as they come; what else there is to know on the other."""
    if sys.stderr.isatty():
        print(f"session {clean_line(name)}", file=sys.stderr)
    flow, last = StreamMasker(shown), "\n"

    def show(each: AgentEvent | UserNotice) -> None:
        nonlocal last
        text = flow.feed(each.text) if isinstance(each, Delta) and each.kind == "text" else ""
        if isinstance(each, Reply | RequestRefused):
            text = flow.flush()
            text += "" if (text or last).endswith("\n") else "\n"
        if text:
            last = text[-1]
            print(text, end="", flush=True)
        if isinstance(each, UserNotice):
            print(f"tidegate: {shown(each.text)}", file=sys.stderr)
        elif isinstance(each, HookReport) and (each.is_error or each.action == "log"):
            print(f"tidegate: hook {each.hook_id}: {shown(each.text)}", file=sys.stderr)

    return show


def create_json_printer(name: str) -> EventPrinter:
    """All of it, as JSON lines."""
    _print_json_line({"type": "session", "name": name})
    return lambda each: _print_json_line(encode_agent_event(each))


def _print_json_line(fields: dict[str, Any]) -> None:
    print(json.dumps(fields), flush=True)  # in ASCII: half a character of a cut stream must not end it


def encode_agent_event(each: AgentEvent | UserNotice) -> dict[str, Any]:
    match each:
        case RequestSent(request, decisions):
            acted = [
                {
                    "rule": one.rule,
                    "stage": one.stage,
                    "before": one.tokens_before,
                    "after": one.tokens_after,
                    "why": one.why,
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
            return {"type": "ended", "id": call.id, "name": call.name, "text": result.text, "error": result.is_error}
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
