"""Files of a project that an agent follows: its configuration, its instructions, its skills.

They count only if they are really in the project. A link that leads out of it could bring a private file into a prompt,
or settings that the user trusts elsewhere; and so could a hard link, which is a second name of a file.
"""

import os
import stat
from pathlib import Path
from typing import Final

from tidegate.core.errors import BadInput

_OPEN: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


def check_is_inside(path: Path, folder: Path) -> Path:
    """Return the real path of a file or folder. BadInput if it is a link that leads out of `folder`."""
    real = path.resolve()
    if not real.is_relative_to(folder.resolve()):
        raise BadInput(
            f"{path.name} is a link that leads out of {folder.resolve().name}, and is not read.",
            "Put the file itself there.",
        )
    return real


def read_project_file(path: Path, folder: Path, max_bytes: int, *, hard_links: bool = False) -> bytes:
    """Read the first bytes of a file. BadInput if it is not in `folder`, no plain file or, by default, a hard link."""
    file = os.open(check_is_inside(path, folder), _OPEN)
    with open(file, "rb") as stream:
        status = os.fstat(file)
        if not stat.S_ISREG(status.st_mode):
            raise BadInput(f"{path.name} is not a file.", "Put a plain text file there.")
        if status.st_nlink > 1 and not hard_links:
            raise BadInput(
                f"{path.name} has {status.st_nlink} names (hard links), and is not read.", "Put a copy of it there."
            )
        return stream.read(max_bytes)
