"""The gateways that run on this machine with a data folder, so that `tidegate ui` finds them.

Each has a file in `gateways/`, readable only by its user, and holds a lock on it: a file without a lock belongs to a
process that was killed.
"""

import fcntl
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

import msgspec

from tidegate.disk.atomic_files import make_folder

_FOLDER: Final = "gateways"


class RunningGateway(msgspec.Struct, frozen=True):
    """A gateway: where it listens, what it serves, and the token that opens its page ("" if it has tokens)."""

    address: str
    page_token: str
    started: float
    client: str = ""
    workspace: str = ""

    def __repr__(self) -> str:
        return f"RunningGateway({self.address!r})"  # never the token


@contextmanager
def announce_gateway(root: Path, gateway: RunningGateway) -> Iterator[None]:
    """Announce a gateway while this context lasts."""
    folder = root / _FOLDER
    make_folder(folder)
    path = folder / f"{os.getpid()}-{secrets.token_hex(4)}.json"
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        os.write(descriptor, msgspec.json.encode(gateway))
        yield
    finally:
        with suppress(OSError):
            path.unlink()
        os.close(descriptor)


def list_running_gateways(root: Path) -> list[RunningGateway]:
    """The gateways that run now, the newest first. Files of killed processes are removed."""
    gateways: list[RunningGateway] = []
    for path in sorted((root / _FOLDER).glob("*.json")):
        with suppress(OSError, msgspec.MsgspecError):
            descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
            with os.fdopen(descriptor, "rb") as file:
                text = file.read(100_000)
                if _is_locked(descriptor):
                    gateways.append(msgspec.json.decode(text, type=RunningGateway))
                else:
                    path.unlink()
    return sorted(gateways, key=lambda each: -each.started)


def _is_locked(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    return False
