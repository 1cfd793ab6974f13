"""`tidegate seeds`: every promise of the presets, with the tests that prove it."""

import argparse
import sys

from tidegate.cli.options import Subparsers, add_command
from tidegate.core.errors import BadInput
from tidegate.terminal.exit_codes import EXIT_FAILED, EXIT_OK

_ABOUT = "List every promise of the shipped policies with the tests that prove it; --run runs these tests now."
_EPILOG = """\
states (with --run): proved = it has tests and all passed; failing = one did not; open = it has none yet

examples:
  tidegate seeds
  tidegate seeds --run
  tidegate seeds --run --json > seeds.json
"""


def add_parser(subparsers: Subparsers) -> None:
    parser = add_command(
        subparsers,
        "seeds",
        run,
        summary="list the promises of the shipped policies, and their tests",
        description=_ABOUT,
        epilog=_EPILOG,
    )
    parser.add_argument(
        "--run", action="store_true", help="run the tests now (in a checkout) and give each row its state"
    )
    parser.add_argument("--json", action="store_true", help='a list of {"id", "text", "tests", "state"}')


def run(options: argparse.Namespace) -> int:
    from tidegate.proof.seeds import find_checkout, format_seeds, link_tests, load_seeds, run_seed_tests
    from tidegate.terminal.output import print_json

    seeds = load_seeds()
    root = find_checkout()
    if root is None:
        if options.run:
            raise BadInput("This installation of tidegate has no tests.", "Run it in a checkout of tidegate.")
        print("tidegate: not in a checkout, so no tests are listed", file=sys.stderr)
    else:
        for unknown in link_tests(seeds, root):
            print(f"tidegate: a test is marked with a row that does not exist: {unknown}", file=sys.stderr)
        if options.run:
            output = run_seed_tests(seeds, root)
            if any(row.state == "failing" for row in seeds):
                print(output, file=sys.stderr)
    if options.json:
        print_json(format_seeds(seeds, as_json=True).encode())
    else:
        print(format_seeds(seeds, as_json=False))
    return EXIT_FAILED if any(row.state == "failing" for row in seeds) else EXIT_OK
