"""`tidegate fetch`: the weights of the embedded model, for a machine that has none."""

import argparse

from tidegate.cli.data_location import locate_data_folder
from tidegate.models.embedded.weights import fetch_weights
from tidegate.terminal.exit_codes import EXIT_OK


def fetch_command(options: argparse.Namespace) -> int:
    print("Fetching the weights of the embedded model (93 MB) ...", flush=True)
    print(fetch_weights(locate_data_folder(options) / "models"))
    return EXIT_OK
