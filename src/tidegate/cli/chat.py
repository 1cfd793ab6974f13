"""`tidegate chat`: from the command line to the app, or where there is no terminal for one, to plain lines."""

import argparse
import gc
from typing import TYPE_CHECKING

from tidegate.cli.extras import list_model_packages, require_packages
from tidegate.cli.options import Subparsers, add_agent_options, add_command, add_data_options
from tidegate.terminal.exit_codes import EXIT_OK

if TYPE_CHECKING:  # loaded when the command runs
    from contextlib import ExitStack

    from tidegate.agent.config.launch import LaunchOptions
    from tidegate.datafolder.data_folder import DataFolder

_ABOUT = """\
Talk with an agent in the terminal. The session is stored. F2 shows what fills the window, and what was removed from it
and why, and can undo this. Without a key or a configuration, a small model on this machine answers.

--plain is for pipes, scripts and screen readers: each line is a message, or a command if it starts with /. A line that
ends with a backslash continues on the next. On a terminal you are asked before a tool runs; without one, it is denied.
"""
_EPILOG = """\
keys: enter sends, ctrl+j starts a new line, esc interrupts, ctrl+o opens the cards, F1 help, F2 context, F3 sessions,
F4 models, F5 light or dark, ctrl+q leaves. With --plain: ctrl+c interrupts, twice it leaves, ctrl+d leaves

status: 0 done, 1 no agent can start, or something failed and there is no terminal, 2 wrong usage, 130 stopped by Ctrl-C

examples:
  tidegate chat
  tidegate chat --session build-fix
  tidegate chat --last
  tidegate chat --model ollama/qwen3:8b --policy default
  tidegate chat --plain < questions.txt > answers.txt
"""


def add_parser(subparsers: Subparsers) -> None:
    parser = add_command(
        subparsers, "chat", run, summary="talk with an agent in the terminal", description=_ABOUT, epilog=_EPILOG
    )
    parser.add_argument("--session", default="", metavar="NAME", help="continue this session (default: a new one)")
    parser.add_argument("--last", action="store_true", help="continue the session that was last used in this folder")
    parser.add_argument(
        "--plain",
        action="store_true",
        help="read and write lines, without a screen (always if there is no terminal)",
    )
    parser.add_argument(
        "--theme", default="", metavar="NAME", help="dark, light or a theme of /theme (default: the one chosen last)"
    )
    add_data_options(parser)
    add_agent_options(parser)


def run(options: argparse.Namespace) -> int:
    """Show at once that the chat is loading: its imports take most of the time until the first screen."""
    from contextlib import ExitStack

    from tidegate.terminal.output import show_loading
    from tidegate.tui.plain.chat_streams import has_interactive_terminal

    with ExitStack() as loading:
        postpone_collection(loading)
        if not options.plain and has_interactive_terminal():
            loading.enter_context(show_loading("tidegate chat: loading…"))
        return _run_chat(options, loading)


def postpone_collection(loading: "ExitStack") -> None:
    """Collect no garbage until `loading` is closed, and never look through what was loaded until then.

    The imports make hundreds of thousands of objects and no garbage. Full collections would take a tenth of the time
    until the first screen, and later pauses while scrolling.
    """
    gc.disable()
    loading.callback(gc.enable)
    loading.callback(gc.freeze)


def _run_chat(options: argparse.Namespace, loading: "ExitStack") -> int:
    from tidegate.agent.environment import hide_environment
    from tidegate.tui.plain.chat_streams import NOTHING_KEPT_TEXT, can_ask_user, has_interactive_terminal

    is_plain = options.plain or not has_interactive_terminal()
    require_packages("pyte", *(() if is_plain else ("rich", "textual", "markdown_it")), *list_model_packages(options))
    hide_environment()

    from pathlib import Path

    from tidegate.agent.config.resolved_config import load_configured_policy
    from tidegate.cli.data_location import open_data_folder
    from tidegate.cli.launch import collect_secrets, make_launch_options
    from tidegate.datafolder.session_names import make_session_name
    from tidegate.datafolder.workspaces import find_last_session

    launch = make_launch_options(options)
    config = launch.load_config().config
    load_configured_policy(config)  # a faulty policy is wrong usage: report it before anything is opened
    secrets = collect_secrets(config)
    with open_data_folder(options, create=True, secrets=secrets) as data:
        wish = config.settings.chat.continue_last
        last = "" if options.session or (wish == "never" and not options.last) else find_last_session(data, Path.cwd())
        is_continued = options.last or wish == "always"
        name = options.session or (last if is_continued else "") or make_session_name(config.settings.app.app_id)
        offer = format_offer(data, last) if last and not is_continued else ""
        launch = launch._replace(session_name=name)
        if not (options.model or options.agent):
            launch = _keep_model(launch, data, loading)

        def format_hint(session: str, launch: "LaunchOptions") -> str:
            return _format_hint(options, session, launch) if data.store.head(session) else NOTHING_KEPT_TEXT

        if is_plain:
            from tidegate.tui.plain.plain_chat import run_plain_chat

            loading.close()
            if offer and can_ask_user():
                print(offer)
            return run_plain_chat(data, launch, Path.cwd(), format_hint=format_hint)
        from tidegate.tui.app import ChatApp
        from tidegate.tui.conversation.transcript_tail import format_transcript_tail

        app = ChatApp(data, launch, Path.cwd(), theme=options.theme, offer=offer)
        loading.close()
        app.run()
        if app.failure is not None:
            raise app.failure
        tail = format_transcript_tail(data, app.session_name, app.sanitizer)
        hint = format_hint(app.session_name, app.agent_thread.launch_options or launch)
        print(f"{tail}\n\n{hint}" if tail else hint)
        return app.return_code or EXIT_OK


def _keep_model(launch: "LaunchOptions", data: "DataFolder", loading: "ExitStack") -> "LaunchOptions":
    """Continue a session with its own model. If that cannot be used, ask; without a terminal it is an error."""
    from tidegate.agent.session_model import format_agent_model, use_session_model
    from tidegate.core.errors import BadInput
    from tidegate.terminal.output import ask_line
    from tidegate.tui.plain.chat_streams import can_ask_user

    try:
        return use_session_model(launch, data)
    except BadInput as problem:
        if not can_ask_user():
            raise
        loading.close()
        other = format_agent_model(launch.load_config().config.agent.model) or "the small model on this machine"
        print(problem.args[0])
        if ask_line(f"Continue with {other} instead? [y/N] ").strip().lower() not in ("y", "yes"):
            raise
        return launch


def format_offer(data: "DataFolder", name: str) -> str:
    """The offer to continue the session that was last used in this folder."""
    from tidegate.core.text.clip import clip_chars
    from tidegate.datafolder.session_names import read_session_title

    title = clip_chars(read_session_title(data, name), 50, mode="head", notice="…").text
    return f"To continue {title!r}, the last session of this folder: /resume last" if title else ""


def _format_hint(options: argparse.Namespace, session: str, launch: "LaunchOptions") -> str:
    """How to continue the session: with the options that are needed again, and no password."""
    from tidegate.store.open import list_url_passwords
    from tidegate.tui.plain.chat_streams import format_resume_hint

    model = launch.model if launch.agent else ""  # an agent that is named comes with its own model
    store = "" if list_url_passwords(options.store) else options.store
    values = {"data": options.data, "store": store, "config": options.config, "agent": launch.agent, "model": model}
    pairs = [(f"--{name}", value) for name, value in {**values, "policy": launch.policy}.items() if value]
    return format_resume_hint(session, [part for pair in pairs for part in pair])
