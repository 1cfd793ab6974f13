"""`tidegate demo`: a chat or a generated session in a small window, and the proof that nothing was lost."""

import argparse

from tidegate.cli.options import Subparsers, add_command, parse_positive_int
from tidegate.core.errors import BadInput

_MIN_WINDOW = 200
"""Tokens. In a smaller window the demo's system prompt leaves no room for a conversation."""
_ABOUT = """\
Chat with a small model on this machine, in a window that overflows within a minute. See how the view is shortened, and
at the end a check that nothing was lost. On a terminal a script chats until you press a key; without one, it runs to
its end. Nothing is stored, and neither your configuration nor a key is read.

--tour needs no model: its answers come from a script. Its tools work in a temporary folder. It shows the cards of
tools, the questions before they run, a diff and a compaction within a minute.

--generated needs no model either: it replays a long generated session of a coding agent. With --save it also writes
this session to a file, which `tidegate lab`, `tune`, `replay` and `import` read: a recording to try them with.
"""
_EPILOG = """\
examples:
  tidegate demo
  tidegate demo --tour
  tidegate demo --policy picoclaw --window 1024
  tidegate demo --generated --policy picoclaw --window 8000
  tidegate demo --generated --turns 200 --seed 3 --fast
  tidegate demo --generated --turns 10 --seed 3 --fast --save recordings/3.jsonl
"""


def add_parser(subparsers: Subparsers) -> None:
    summary = "watch how a session stays within a small window"
    parser = add_command(subparsers, "demo", run, summary=summary, description=_ABOUT, epilog=_EPILOG)
    add = parser.add_argument
    add(
        "--policy", default="default", metavar="NAME_OR_FILE", help="a shipped policy or a YAML file (default: default)"
    )
    add(
        "--window",
        type=parse_positive_int,
        default=0,
        metavar="N",
        help="tokens (default: 384; --tour: 8000; --generated: 16000)",
    )
    kind = parser.add_mutually_exclusive_group()
    kind.add_argument("--tour", action="store_true", help="a scripted tour of the app with tools, without a model")
    kind.add_argument("--generated", action="store_true", help="a generated session instead of a chat")
    add(
        "--turns",
        type=parse_positive_int,
        default=40,
        metavar="N",
        help="how many requests it has (generated; default: 40)",
    )
    add("--seed", type=int, default=7, metavar="N", help="seed of the generated session (default: 7)")
    add("--fast", action="store_true", help="no pauses (generated)")
    add("--save", default="", metavar="FILE", help="also write the session as a recording (generated)")


def run(options: argparse.Namespace) -> int:
    from tidegate.agent.environment import hide_environment

    if 0 < options.window < _MIN_WINDOW:
        raise BadInput(
            f"A window of {options.window} tokens is too small for the demo.", f"Use --window {_MIN_WINDOW} or more."
        )
    if options.save and not options.generated:
        raise BadInput("--save writes a generated session.", "Add --generated, or leave --save out.")
    hide_environment()
    if options.generated:
        from tidegate.proof.demo.generated import run_generated_demo

        return run_generated_demo(
            policy=options.policy,
            window=options.window,
            turns=options.turns,
            seed=options.seed,
            fast=options.fast,
            recording=options.save,
        )
    if options.tour:
        from tidegate.proof.demo.tour import run_tour

        return run_tour(options.policy, options.window)
    from tidegate.proof.demo.chat_demo import run_chat_demo

    return run_chat_demo(options.policy, options.window)
