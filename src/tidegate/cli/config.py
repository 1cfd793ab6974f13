"""`tidegate config`: the settings that an agent runs with, and where each comes from."""

import argparse

from tidegate.cli.options import Subparsers, add_agent_options, add_command, format_examples
from tidegate.terminal.exit_codes import EXIT_FAILED, EXIT_OK

_ABOUT = "Show every setting of an agent and its source: a line of a file, a variable or the default."


def add_parser(subparsers: Subparsers) -> None:
    examples = format_examples("config", "", "--agent reviewer", "--trust", "--json")
    parser = add_command(
        subparsers, "config", run, summary="show the settings in effect", description=_ABOUT, epilog=examples
    )
    parser.add_argument("--trust", action="store_true", help="trust this folder's tidegate.yaml as it is now")
    parser.add_argument("--json", action="store_true", help='a list of {"name", "value", "source", "note"}')
    add_agent_options(parser)


def run(options: argparse.Namespace) -> int:
    import os
    from pathlib import Path

    import msgspec

    from tidegate.agent.config.effective_settings import list_effective_settings
    from tidegate.agent.config.files import locate_config_files
    from tidegate.agent.config.trust import trust_project_file
    from tidegate.cli.launch import make_launch_options
    from tidegate.core.text.terminal_text import clean_line
    from tidegate.terminal.output import print_json

    if options.trust:
        trusted = trust_project_file(locate_config_files(Path.cwd(), os.environ))
        print("This folder's tidegate.yaml is trusted as it is now." if trusted else "There is no tidegate.yaml here.")
        return EXIT_OK if trusted else EXIT_FAILED
    settings = list_effective_settings(make_launch_options(options).load_config().config, os.environ)
    if options.json:
        rows = [each._asdict() for each in settings]
        print_json(msgspec.json.encode(rows))
        return EXIT_OK
    width = max(len(each.name) for each in settings)
    for each in settings:
        print(clean_line(each.name).ljust(width), "", "  (".join(map(clean_line, str(each).split("  (", 1))))
    return EXIT_OK
