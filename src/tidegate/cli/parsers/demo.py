"""The parser of `tidegate demo`. The demonstration itself is elsewhere and loaded late."""

import argparse
from typing import Any

_DEMO = """\
Chat with a small model that runs on this machine, in a window that floods within a minute: see how room is made, and
then the proof that nothing was lost. On a terminal a script chats and any key takes over; elsewhere it plays by itself.
Nothing of it is kept, and neither your configuration nor a key is read.

--generated needs no model: a long session of a coding agent, made up, flows through a window.
"""
_DEMO_END = """\
examples:
  tidegate demo
  tidegate demo --policy picoclaw --window 1024
  tidegate demo --generated --policy picoclaw --window 8000
  tidegate demo --generated --turns 200 --seed 3 --fast
"""


def add_demo_parser(commands: Any) -> None:
    """Add the parser; `commands` is what argparse's add_subparsers gave."""
    parser = commands.add_parser(
        "demo",
        help="watch a session flow through a small window",
        description=_DEMO,
        epilog=_DEMO_END,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add("--policy", default="default", metavar="NAME_OR_FILE", help="a preset or a YAML file (default: default)")
    add("--window", type=_parse_positive_int, default=0, metavar="N", help="tokens (default: 384; --generated: 16000)")
    add("--generated", action="store_true", help="a made-up session instead of a chat")
    add(
        "--turns",
        type=_parse_positive_int,
        default=40,
        metavar="N",
        help="how many requests it has (generated; default: 40)",
    )
    add("--seed", type=int, default=7, metavar="N", help="another one (generated; default: 7)")
    add("--fast", action="store_true", help="no pauses (generated)")


def _parse_positive_int(text: str) -> int:
    if not text.isdecimal() or not int(text):
        raise argparse.ArgumentTypeError(f"{text!r} is not a positive whole number")
    return int(text)
