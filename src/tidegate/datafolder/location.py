"""Where the data of this user is, if a program does not name a folder."""

import os
from pathlib import Path

DATA_VARIABLE = "TIDEGATE_DATA"
STORE_VARIABLE = "TIDEGATE_STORE"


def locate_user_data() -> Path:
    """Return the folder of the environment, else the one where programs of this user keep their data."""
    home = os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share"
    return Path(os.environ.get(DATA_VARIABLE) or Path(home) / "tidegate")
