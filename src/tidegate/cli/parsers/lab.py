"""What `tidegate lab` and `tidegate tune` understand. Light: nothing of the lab is loaded here."""

import argparse
from typing import Any

_LAB = """\
Replay recorded sessions under several policies, without a model and without a key, and say in numbers what each keeps
and what it costs: means over sessions with 95% intervals over projects, and paired differences from a baseline.

PATH is a session file of any known agent, or a folder of them; --mine finds your own. Sessions longer than 1.5 windows
are measured. Results are kept in a cache by content: a run that was stopped goes on, one that is repeated is instant.
"""
_LAB_END = """\
what the columns mean, what they do not show and how to read an interval: docs/lab.md

examples:
  tidegate lab recordings/ --window 32000
  tidegate lab recordings/ --policy default --policy my.yaml --window 16000 --window 64000 --html report.html
  tidegate lab --mine claude-code --window 64000 --peers --json report.json
  tidegate lab recordings/ --window 32000 --peers --curve fidelity=0.5,1,2,4
  tidegate lab recordings/ --policy my.yaml --window 32000 --save kept.json     then, after a change:
  tidegate lab recordings/ --gate kept.json                                     exit status 1 if it got worse
"""
_TUNE = """\
Search the settings of a policy on one part of the sessions and report on the other part, which the search never sees.
The parts share no project. What is found is written as a policy file with its evidence in comments.
"""
_TUNE_END = """\
sought is the most that is kept (mean of far references, edit anchors and user words) at no more cost than before; a
setting that breaks requests loses. The optimiser is an extra: pip install 'tidegate[tune]'

examples:
  tidegate tune recordings/ --window 32000 --out tuned.yaml
  tidegate tune recordings/ --policy picoclaw --window 16000 --trials 100 --vary keep_last=4..40
"""

Subparsers = Any
"""What argparse calls _SubParsersAction, and has no public name for."""


def parse_positive_int(text: str) -> int:
    try:
        number = int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number") from None
    if number <= 0:
        raise argparse.ArgumentTypeError(f"{number} is not positive")
    return number


def add_lab_parsers(commands: Subparsers) -> None:
    raw = argparse.RawDescriptionHelpFormatter
    _add_lab_options(
        commands.add_parser(
            "lab", help="compare policies on recorded sessions", description=_LAB, epilog=_LAB_END, formatter_class=raw
        )
    )
    _add_tune_options(
        commands.add_parser(
            "tune", help="search a policy's settings", description=_TUNE, epilog=_TUNE_END, formatter_class=raw
        )
    )


def _add_source_options(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("paths", nargs="*", metavar="PATH", help="a session file of any known agent, or a folder of them")
    add("--mine", action="append", default=[], metavar="AGENT", help="your own sessions of this agent, reading only")
    add("--count", choices=("chars/4", "exact"), default=None, help="how tokens are counted (default: chars/4)")
    add("--common", default="", metavar="FILE", help="JSON list of names to leave out (default: those of 4 projects)")
    add("--longer", type=float, default=None, metavar="N", help="measure sessions longer than N windows (default: 1.5)")
    add("--model", default="", metavar="NAME", help="whose prices (default: claude-sonnet-5)")
    add("--cache", default="", metavar="DIR", help="where results are kept (default: the user's cache folder)")
    add("--jobs", type=parse_positive_int, default=0, metavar="N", help="processes (default: one a core)")


def _add_lab_options(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    _add_source_options(parser)
    add(
        "--policy",
        action="append",
        default=[],
        metavar="NAME_OR_FILE",
        help="a preset or a YAML file; may be repeated (default: all presets)",
    )
    add("--window", action="append", type=parse_positive_int, default=[], metavar="N", help="tokens; may be repeated")
    add("--peers", action="store_true", help="other tools too, as far as `make peers` built them")
    add("--peer", action="append", default=[], metavar="NAME", help="one other tool; may be repeated")
    add(
        "--curve",
        default="",
        metavar="[POLICY:]SETTING=V,V,...",
        help="one policy (default: default) at these values of a setting, in a table of its own, and compared with each"
        " other policy at equal cost",
    )
    add("--baseline", default="", metavar="NAME", help="whom all others are compared with (default: default)")
    add("--json", default="", metavar="FILE", help="everything, for programs (- for the standard output)")
    add(
        "--csv",
        default="",
        metavar="FILE",
        help="one line for each session under each policy; with --curve NAME.equal-cost.csv beside it",
    )
    add("--html", default="", metavar="FILE", help="one page to read and to click through, no network needed")
    add("--save", default="", metavar="FILE", help="what --gate compares with later")
    add("--gate", default="", metavar="FILE", help="exit status 1 if a policy is worse than stored, beyond noise")


def _add_tune_options(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    _add_source_options(parser)
    add("--policy", default="default", metavar="NAME_OR_FILE", help="where to begin (default: default)")
    add("--window", type=parse_positive_int, required=True, metavar="N", help="tokens")
    add("--trials", type=parse_positive_int, default=40, metavar="N", help="how many settings are tried (default: 40)")
    add("--seed", type=int, default=7, metavar="N", help="another search (default: 7)")
    add(
        "--vary",
        action="append",
        default=[],
        metavar="NAME=LOW..HIGH",
        help="a setting to search, with its bounds; may be repeated (default: all numbers, from a quarter to fourfold)",
    )
    add("--out", default="tuned.yaml", metavar="FILE", help="the policy file to write (default: tuned.yaml)")
