"""`tidegate run`: one turn of an agent, for scripts. Nothing but text and line ends is ever printed."""

import argparse
import sys
from typing import TYPE_CHECKING

from tidegate.cli.extras import list_model_packages, require_packages
from tidegate.cli.options import Subparsers, add_agent_options, add_command, add_data_options
from tidegate.core.errors import BadInput, TidegateError
from tidegate.terminal.exit_codes import EXIT_FAILED, EXIT_OK

if TYPE_CHECKING:  # loaded when the command runs
    from tidegate.agent.config.launch import LoadedConfig
    from tidegate.core.messages import Message
    from tidegate.datafolder.data_folder import DataFolder

_ABOUT = """\
Do one task with an agent and stream its answer, for scripts: no questions are asked, and a tool call that needs
approval is denied (see capabilities in tidegate.yaml). The session is stored; name it to continue it.
"""
_EPILOG = """\
status: 0 answered, 1 failed or not finished, 2 wrong usage, 130 stopped by Ctrl-C (the session is intact)

examples:
  tidegate run "Why is the build slow?"
  tidegate run --session build-fix "And what did we try before?"
  tidegate run --model ollama/qwen3:8b --json "List the TODOs" | jq -r 'select(.type == "result") | .text'
  git diff | tidegate run - --agent reviewer
"""


def add_parser(subparsers: Subparsers) -> None:
    parser = add_command(
        subparsers, "run", run, summary="do one task with an agent", description=_ABOUT, epilog=_EPILOG
    )
    parser.add_argument("task", metavar="TASK", help="what to do; - reads it from standard input")
    parser.add_argument(
        "--json",
        action="store_true",
        help="a line of JSON for each thing that happens; the last one has the text, the usage and the cost",
    )
    parser.add_argument("--session", default="", metavar="NAME", help="continue this session (default: a new one)")
    add_data_options(parser)
    add_agent_options(parser)


def run(options: argparse.Namespace) -> int:
    from tidegate.agent.environment import hide_environment

    require_packages("pyte", *list_model_packages(options))
    hide_environment()

    import asyncio

    from tidegate.agent.session_model import use_session_model
    from tidegate.cli.data_location import open_data_folder
    from tidegate.cli.launch import collect_secrets, make_launch_options
    from tidegate.cli.run_output import print_json_line
    from tidegate.core.messages import user_message
    from tidegate.datafolder.session_names import make_session_name
    from tidegate.terminal.signals import run_until_signal

    task = sys.stdin.read() if options.task == "-" else options.task
    if not task.strip():
        raise BadInput("The task is empty.", 'Say what to do: tidegate run "..."')
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(errors="replace")  # type: ignore[union-attr] # they are text files
    launch = make_launch_options(options)
    loaded = launch.load_config()
    name = options.session or make_session_name(loaded.config.settings.app.app_id)
    with open_data_folder(options, create=True, secrets=collect_secrets(loaded.config)) as data:
        try:
            if options.session and not (options.model or options.agent):
                launch = use_session_model(launch._replace(session_name=name), data)
                loaded = launch.load_config()
                loaded.problems.extend([launch.notice] if launch.notice else [])
            message = user_message(task, typed=options.task != "-")
            return asyncio.run(run_until_signal(_run_turn(loaded, data, name, message, as_json=options.json)))
        except TidegateError as failure:
            if options.json:
                print_json_line({"type": "error", "error": failure.args[0], "remedy": failure.remedy})
            raise


async def _run_turn(loaded: "LoadedConfig", data: "DataFolder", name: str, task: "Message", *, as_json: bool) -> int:
    from contextlib import aclosing
    from pathlib import Path

    from tidegate.agent.runtime import open_agent
    from tidegate.cli.run_output import (
        RunResult,
        create_json_printer,
        create_text_printer,
        print_greeting,
        print_json_line,
    )
    from tidegate.terminal.output import TextSanitizer, print_error

    sanitize = TextSanitizer(data.mask)
    print_event = create_json_printer(name) if as_json else create_text_printer(name, sanitize)
    async with open_agent(
        loaded.config, data=data, name=name, workspace=Path.cwd(), specialists=loaded.specialists
    ) as agent:
        agent.notices += loaded.problems
        result = RunResult(agent)
        print_greeting(sanitize(agent.greeting), as_json=as_json)
        async with aclosing(agent.run_turn(task)) as turn:
            async for event in turn:
                print_event(event)
                result.add_event(event)
        if as_json:
            print_json_line(result.encode())
    if result.reason in ("end", "unknown"):
        return EXIT_OK
    if not as_json:
        print_error(f"not finished: {result.reason}", f"go on with --session {name}.")
    return EXIT_FAILED
