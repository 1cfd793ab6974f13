"""`tidegate policies`: the presets, as a list or as the files they are."""

import argparse

from tidegate.cli.options import Subparsers, add_command, format_examples
from tidegate.terminal.exit_codes import EXIT_OK

_ABOUT = "List the shipped policies and when to choose which, or print one, for example to start your own policy file."


def add_parser(subparsers: Subparsers) -> None:
    examples = format_examples("policies", "", "--json", "default > my.yaml")
    parser = add_command(
        subparsers,
        "policies",
        run,
        summary="list the shipped policies, or print one",
        description=_ABOUT,
        epilog=examples,
    )
    parser.add_argument("--json", action="store_true", help='a list of {"name", "about"}')
    parser.add_argument("name", nargs="?", metavar="NAME", help="print the file of this preset")


def run(options: argparse.Namespace) -> int:
    import shutil
    import textwrap
    from importlib import resources

    import msgspec

    from tidegate.core.config.values import quote_value, suggest_name
    from tidegate.core.errors import BadPolicy
    from tidegate.presets import load, preset_names
    from tidegate.terminal.output import print_json

    if options.name is None and options.json:
        print_json(msgspec.json.encode([{"name": name, "about": load(name).about.strip()} for name in preset_names()]))
        return EXIT_OK
    if options.name is None:
        width = min(120, shutil.get_terminal_size((100, 24)).columns)
        for name in preset_names():
            print(textwrap.fill(load(name).about, width, initial_indent=f"{name:10}", subsequent_indent=" " * 10))
        return EXIT_OK
    if options.name not in preset_names():
        raise BadPolicy(f"No preset is called {quote_value(options.name)}.", suggest_name(options.name, preset_names()))
    print(resources.files("tidegate.presets").joinpath(f"{options.name}.yaml").read_text("utf-8"), end="")
    return EXIT_OK
