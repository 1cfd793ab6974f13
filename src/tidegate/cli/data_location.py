"""Where the kept sessions are, for the commands."""

import argparse
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tidegate.cli.options import DATA_VARIABLE, STORE_VARIABLE
from tidegate.core.errors import BadInput
from tidegate.datafolder.data_folder import DataFolder


def locate_data_folder(options: argparse.Namespace) -> Path:
    """What was asked for, else the environment's, else where programs of this user keep their data."""
    home = os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share"
    return Path(options.data or os.environ.get(DATA_VARIABLE) or Path(home) / "tidegate")


@contextmanager
def open_data_folder(options: argparse.Namespace, *, create: bool = False) -> Iterator[DataFolder]:
    """Looking at a folder that is not there must not make one: it is more likely mistyped."""
    folder = locate_data_folder(options)
    if not create and not folder.is_dir():
        raise BadInput(
            f"There is no data folder {folder}.",
            f"Name the one that holds your sessions with --data or ${DATA_VARIABLE}.",
        )
    data = DataFolder(folder, store=options.store or os.environ.get(STORE_VARIABLE, ""))
    try:
        yield data
    finally:
        data.close()
