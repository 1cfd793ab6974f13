"""`tidegate fetch`: the weights of the embedded model, for a machine that has none."""

import argparse

from tidegate.apps.choices import OK
from tidegate.apps.place import data_folder
from tidegate.models.weights import fetch


def fetch_command(options: argparse.Namespace) -> int:
    print("Fetching the weights of the embedded model (93 MB) ...", flush=True)
    print(fetch(data_folder(options) / "models"))
    return OK
