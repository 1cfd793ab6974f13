"""`tidegate demo`: a bug fix of 300 steps in a small window, or a chat with a small model, with a proof at the end."""

import argparse

from tidegate.cli.options import Subparsers, add_command, parse_positive_int
from tidegate.core.errors import BadInput

_MIN_WINDOW = 200
"""Tokens. In a smaller window the demo's system prompt leaves no room for a conversation."""
_ABOUT = """\
Watch one bug fix of 300 steps in a window of 32,000 tokens: what fills the window, what leaves it and why, a rule of
step 3 that is needed at step 280, a fact that recall finds again, the state note, the cost, and at the end a check that
nothing was lost. The agent's steps are a script, so it needs no model and no key; what tidegate does is computed while
you watch. With --save the session also goes into a file, which `tidegate lab`, `tune`, `replay` and `import` read.

--model chats with a small model on this machine instead, in a window that overflows within a minute. On a terminal a
script chats until you press a key; without one, it runs to its end.

Neither your configuration nor a key is read, and nothing is stored but the file of --save.
"""
_EPILOG = """\
examples:
  tidegate demo
  tidegate demo --policy digitorn --window 8000
  tidegate demo --fast --seed 3 --save recordings/3.jsonl
  tidegate demo --model
  tidegate demo --model --policy picoclaw --window 1024
"""


def add_parser(subparsers: Subparsers) -> None:
    summary = "watch how a session stays within a small window"
    parser = add_command(subparsers, "demo", run, summary=summary, description=_ABOUT, epilog=_EPILOG)
    add = parser.add_argument
    add("--model", action="store_true", help="chat with a small model on this machine instead")
    add(
        "--policy", default="default", metavar="NAME_OR_FILE", help="a shipped policy or a YAML file (default: default)"
    )
    add("--window", type=parse_positive_int, default=0, metavar="N", help="tokens (default: 32000; with --model: 384)")
    add("--seed", type=int, default=7, metavar="N", help="another project for the bug fix (default: 7)")
    add("--fast", action="store_true", help="no pauses")
    add("--save", default="", metavar="FILE", help="also write the bug fix as a recording")


def run(options: argparse.Namespace) -> int:
    from tidegate.agent.environment import hide_environment

    if 0 < options.window < _MIN_WINDOW:
        raise BadInput(
            f"A window of {options.window} tokens is too small for the demo.", f"Use --window {_MIN_WINDOW} or more."
        )
    if options.save and options.model:
        raise BadInput("--save writes the bug fix of the tour.", "Leave --model or --save out.")
    hide_environment()
    if options.model:
        from tidegate.proof.demo.chat_demo import run_chat_demo

        return run_chat_demo(options.policy, options.window)
    from tidegate.proof.demo.tour import run_tour

    return run_tour(
        policy=options.policy, window=options.window, seed=options.seed, fast=options.fast, recording=options.save
    )
