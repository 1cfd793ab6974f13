"""`tidegate run`: one turn of an agent, for scripts. Nothing but text and line ends is ever printed."""

import argparse
import asyncio
import json
import os
import signal
import sys
import time
from collections.abc import Callable, Coroutine
from contextlib import aclosing
from pathlib import Path
from typing import Any

from tidegate.agent.chosen import secret_values
from tidegate.agent.commands_opening import Read
from tidegate.agent.hooks import Done
from tidegate.agent.loop import Asked, Began, Ended, Happening, Refused, Steered, Stopped
from tidegate.agent.open import Notice, open_agent
from tidegate.apps.choices import FAILED, OK
from tidegate.apps.configuring import chosen
from tidegate.apps.keeping import STORE
from tidegate.apps.place import data_folder
from tidegate.apps.plain_flow import Flow
from tidegate.apps.terminal import Shown, print_error
from tidegate.core.errors import BadInput, TidegateError
from tidegate.core.messages import Message, user
from tidegate.core.secrets import keys_of
from tidegate.core.terminal_text import clean_line
from tidegate.keep.data import DataFolder
from tidegate.models.provider import Delta, Reply
from tidegate.wire.usage import read_usage

Show = Callable[[Happening | Notice], None]


def run_command(options: argparse.Namespace) -> int:
    task = sys.stdin.read() if options.task == "-" else options.task
    if not task.strip():
        raise BadInput("The task is empty.", 'Say what to do: tidegate run "..."')
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(errors="replace")  # type: ignore[union-attr] # they are text files
    found = chosen(options)
    name = options.session or new_name(found)
    secrets = [*keys_of(os.environ), *secret_values(found.config, os.environ)]
    store = options.store or os.environ.get(STORE, "")
    data = DataFolder(data_folder(options), store=store, secrets=secrets)
    try:
        message = user(task, typed=options.task != "-")
        return asyncio.run(unless_told(_answered(found, data, name, message, as_json=options.json)))
    except TidegateError as failure:
        if options.json:
            _line({"type": "error", "error": failure.args[0], "remedy": failure.remedy})
        raise
    finally:
        data.close()


def new_name(found: Read) -> str:
    """The app's, with the time, which sorts, and the process, which tells two of the same second apart."""
    return f"{found.config.settings.app.app_id}-{time.strftime('%Y%m%d-%H%M%S')}-{os.getpid()}"


async def unless_told(work: Coroutine[Any, Any, int]) -> int:
    """Its status; if the process is told to end, it is stopped as by Ctrl-C and the status says which signal it was."""
    task, told = asyncio.ensure_future(work), list[int]()
    loop = asyncio.get_running_loop()

    def stop(number: int) -> None:
        told.append(number)
        task.cancel()

    heard = [each for each in (signal.SIGTERM, signal.SIGHUP) if signal.getsignal(each) is signal.SIG_DFL]
    for each in heard:
        loop.add_signal_handler(each, stop, each)
    try:
        return await task
    except asyncio.CancelledError:
        if not told:
            raise
    finally:
        for each in heard:
            loop.remove_signal_handler(each)
    print("tidegate: stopped", file=sys.stderr)
    return 128 + told[0]


async def _answered(found: Read, data: DataFolder, name: str, task: Message, *, as_json: bool) -> int:
    show = lines(name) if as_json else plain(name, Shown(data.mask))
    why = ""
    async with open_agent(
        found.config, data=data, name=name, workspace=Path.cwd(), specialists=found.specialists
    ) as agent:
        agent.notices += found.problems
        greet(Shown(data.mask)(agent.greeting), as_json=as_json)
        async with aclosing(agent.turn(task)) as turn:
            async for each in turn:
                show(each)
                why = each.why if isinstance(each, Stopped) else why
    if why in ("end", "unknown"):
        return OK
    if not as_json:
        print_error(f"not finished: {why}", f"go on with --session {name}.")
    return FAILED


def greet(text: str, *, as_json: bool) -> None:
    """For people who look on: what goes into a pipe is the answer alone."""
    if text and as_json:
        _line({"type": "greeting", "text": text})
    elif text and sys.stderr.isatty():
        print(text, file=sys.stderr)


def plain(name: str, shown: Shown) -> Show:
    """The model's words on standard output, as they come; what else there is to know on the other."""
    if sys.stderr.isatty():
        print(f"session {clean_line(name)}", file=sys.stderr)
    flow, last = Flow(shown), "\n"

    def show(each: Happening | Notice) -> None:
        nonlocal last
        text = flow.take(each.text) if isinstance(each, Delta) and each.kind == "text" else ""
        if isinstance(each, Reply | Refused):
            text = flow.end()
            text += "" if (text or last).endswith("\n") else "\n"
        if text:
            last = text[-1]
            print(text, end="", flush=True)
        if isinstance(each, Notice):
            print(f"tidegate: {shown(each.text)}", file=sys.stderr)
        elif isinstance(each, Done) and (each.error or each.action == "log"):
            print(f"tidegate: hook {each.hook}: {shown(each.text)}", file=sys.stderr)

    return show


def lines(name: str) -> Show:
    """All of it, as JSON lines."""
    _line({"type": "session", "name": name})
    return lambda each: _line(as_line(each))


def _line(fields: dict[str, Any]) -> None:
    print(json.dumps(fields), flush=True)  # in ASCII: half a character of a cut stream must not end it


def as_line(each: Happening | Notice) -> dict[str, Any]:
    match each:
        case Asked(request, decisions):
            acted = [
                {"rule": one.rule, "stage": one.stage, "before": one.before, "after": one.after, "why": one.why}
                for one in decisions
                if one.acted
            ]
            return {"type": "asked", "tokens": request.tokens, "decisions": acted}
        case Delta(kind, text, index):
            return {"type": kind, "text": text} if kind != "call" else {"type": "call", "text": text, "index": index}
        case Reply():
            return {"type": "reply", "stop": each.stop, "usage": read_usage(each.usage)._asdict(), "model": each.model}
        case Began(call):
            return {"type": "began", "id": call.id, "name": call.name, "arguments": call.arguments}
        case Ended(call, result):
            return {"type": "ended", "id": call.id, "name": call.name, "text": result.text, "error": result.error}
        case Refused(fault):
            return {"type": "refused", "kind": fault.kind, "text": fault.args[0]}
        case Steered(text):
            return {"type": "steered", "text": text}
        case Done(hook, action, text, error):
            return {"type": "hook", "hook": hook, "action": action, "text": text, "error": error}
        case Notice(text):
            return {"type": "notice", "text": text}
        case Stopped(why):
            return {"type": "stopped", "why": why}
