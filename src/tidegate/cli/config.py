"""`tidegate config`: the settings that an agent runs with, and where each comes from."""

import argparse

from tidegate.cli.options import Subparsers, add_agent_options, add_command, format_examples
from tidegate.terminal.exit_codes import EXIT_FAILED, EXIT_OK

_ABOUT = """\
Show every setting of an agent and its source: a line of a file, a variable or the default.

`import FILE` writes a tidegate.yaml for this folder from the configuration of CowAgent, PicoClaw, Digitorn, jutul-agent
or ai, and prints what became of each key. API keys are not copied, and no file is overwritten."""


def add_parser(subparsers: Subparsers) -> None:
    examples = format_examples("config", "", "--agent reviewer", "--trust", "--json", "import ~/CowAgent/config.json")
    parser = add_command(
        subparsers, "config", run, summary="show the settings in effect", description=_ABOUT, epilog=examples
    )
    parser.add_argument("action", nargs="?", choices=["import"], help="take over the configuration of another agent")
    parser.add_argument("file", nargs="?", default="", metavar="FILE", help="the file to import")
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
    from tidegate.terminal.output import print_indented, print_json

    if options.action:
        return _import_file(options.file)
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
        print_indented(clean_line(each.name).ljust(width + 2), "  (".join(map(clean_line, str(each).split("  (", 1))))
    return EXIT_OK


def _import_file(file: str) -> int:
    """Write the tidegate.yaml of this folder and print what became of each key of the file."""
    from pathlib import Path

    from tidegate.agent.config.config_import import import_config
    from tidegate.core.errors import BadInput
    from tidegate.core.text.terminal_text import clean_line

    if not file:
        raise BadInput("No file is named.", "Write `tidegate config import FILE`.")
    done = import_config(Path(file).expanduser(), Path.cwd())
    print(f"tidegate.yaml was written from {clean_line(file)}, a configuration of {done.system}.")
    for entry in done.taken:
        print("  " + clean_line(f"{'.'.join(entry.key)} -> {'.'.join(entry.setting)}: {entry.value}"))
    if done.unused:
        print("Not taken over:")
        for key, reason in done.unused:
            print("  " + clean_line(f"{key} ({reason})"))
    if done.variables:
        print(f"Set these variables to your keys: {', '.join(done.variables)}.")
    if done.risks:
        print(f"The file sets {', '.join(done.risks)}: read it, then run `tidegate config --trust`.")
    return EXIT_OK
