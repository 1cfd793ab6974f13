"""The parser of `tidegate chat`. The app itself is elsewhere and loaded late."""

import argparse
from typing import Any

from tidegate.cli.options import DATA_VARIABLE, STORE_VARIABLE
from tidegate.cli.parsers.run import add_agent_options

_CHAT = """\
Talk with an agent in the terminal. The session is kept; F2 shows what fills the window, what was taken out of it and
why, and takes it back. Without a key or a configuration a small model answers that runs on this machine.

--plain is for pipes, scripts and screen readers: each line is a message, or with a / in front a command; a line that
ends with a backslash goes on in the next. What would be asked is asked on a terminal and denied elsewhere.
"""
_CHAT_END = """\
keys: enter sends, ctrl+j begins a line, esc interrupts, ctrl+o opens the cards, F1 help, F2 context, F3 sessions,
F4 models, F5 light or dark, ctrl+q leaves; plain: ctrl+c interrupts, twice it leaves, ctrl+d ends

status: 0 done, 1 no agent, or (where no person sees it) something failed, 2 wrong call, 130 stopped by Ctrl-C

examples:
  tidegate chat
  tidegate chat --session build-fix
  tidegate chat --last
  tidegate chat --model ollama/qwen3:8b --policy default
  tidegate chat --plain < questions.txt > answers.txt
"""


def add_chat_parser(commands: Any) -> None:
    """Add the parser; `commands` is what argparse's add_subparsers gave."""
    chat = commands.add_parser(
        "chat",
        help="talk with an agent in the terminal",
        description=_CHAT,
        epilog=_CHAT_END,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    chat.add_argument("--session", default="", metavar="NAME", help="go on with this session (default: a new one)")
    chat.add_argument("--last", action="store_true", help="go on with the session that was used last")
    chat.add_argument(
        "--plain",
        action="store_true",
        help="lines in, lines out, without a screen; so it is where there is no terminal",
    )
    chat.add_argument("--theme", choices=("dark", "light"), default="dark", help="the colours (default: dark)")
    chat.add_argument(
        "--data", default="", metavar="FOLDER", help=f"the data folder (default: ${DATA_VARIABLE}, else the user's own)"
    )
    chat.add_argument(
        "--store",
        default="",
        metavar="URL",
        help=f"where the logs are, if not in the folder (default: ${STORE_VARIABLE})",
    )
    add_agent_options(chat)
