"""What a disk may hold after a power cut, made from the tape of a run (see shim.c).

A kill loses nothing that was written: the system still has it. A power cut loses what was not synced, and not in order.
So a disk is kept here as two: what is seen, and what is safe. The data of a file is safe after a sync of it; its name
after a sync of its folder. Of the rest, a draw decides: nothing of it survives, or all, or some writes and the names
up to some point, and the last write may be torn.
"""

import random
from pathlib import Path
from typing import NamedTuple

SHARED_MEMORY = "-shm"
"""SQLite's index of the log: it is made again whenever nobody has the file open."""


class Call(NamedTuple):
    what: str
    offset: int
    path: str
    other: str
    data: bytes


class Change(NamedTuple):
    """A name that appears (with a file, or None for a folder) or goes."""

    path: str
    gone: bool
    file: "File | None"


class File:
    def __init__(self, data: bytes = b"") -> None:
        self.safe = bytearray(data)
        self.pending: list[Call] = []

    def sync(self) -> None:
        for call in self.pending:
            _put(self.safe, call)
        self.pending.clear()

    def survived(self, dice: random.Random, share: float) -> bytes:
        data = bytearray(self.safe)
        for call in self.pending:
            if dice.random() < share:
                torn = share < 1 and dice.random() < 0.1
                _put(data, call._replace(data=call.data[: len(call.data) // 2]) if torn else call)
        return bytes(data)


def _put(data: bytearray, call: Call) -> None:
    if call.what == "truncate":
        del data[call.offset :]
        data.extend(bytes(call.offset - len(data)))
        return
    data.extend(bytes(max(0, call.offset - len(data))))
    data[call.offset : call.offset + len(call.data)] = call.data


def read_tape(path: Path) -> list[Call]:
    tape, place, calls = path.read_bytes(), 0, list[Call]()
    while place < len(tape):
        end = tape.index(b"\n", place)
        what, offset, size, name, other = tape[place:end].decode().split(" ")
        place = end + 1 + int(size)
        calls.append(Call(what, int(offset), name.strip("/"), other.strip("/"), tape[end + 1 : place]))
    return calls


class Disk:
    """A folder, as it is seen and as it is safe. None in place of a file is a folder."""

    def __init__(self, folder: Path) -> None:
        self.seen: dict[str, File | None] = {"": None}
        for path in folder.rglob("*"):
            self.seen[str(path.relative_to(folder))] = File(path.read_bytes()) if path.is_file() else None
        self.safe = dict(self.seen)
        self.pending: list[Change] = []

    def do(self, call: Call) -> None:
        if call.what in ("write", "truncate"):
            file = self.seen.get(call.path)
            if file is not None:  # else it was unlinked, and lives only for who has it open
                file.pending.append(call)
        elif call.what == "sync":
            self._sync(call.path)
        elif call.what in ("create", "mkdir"):
            self._change(Change(call.path, False, File() if call.what == "create" else None))
        elif call.what in ("rename", "link"):
            self._change(Change(call.other, False, self.seen[call.path]))
        if call.what in ("rename", "unlink"):
            self._change(Change(call.path, True, None))

    def _change(self, change: Change) -> None:
        _apply(self.seen, change)
        self.pending.append(change)

    def _sync(self, path: str) -> None:
        file = self.seen.get(path)
        if file is not None:
            file.sync()
            return
        mine = [change for change in self.pending if _folder(change.path) == path]
        for change in mine:
            _apply(self.safe, change)
        self.pending = [change for change in self.pending if change not in mine]

    def leave(self, folder: Path, seed: int) -> None:
        """Write into an empty folder what survived. Seed 0: nothing that was not safe; 1: all that was seen."""
        dice, share = random.Random(seed), (0.0, 1.0)[seed] if seed < 2 else 0.5
        names = dict(self.safe)
        kept = len(self.pending) if seed == 1 else dice.randint(0, len(self.pending)) if seed else 0
        for change in self.pending[:kept]:
            _apply(names, change)
        for name, file in sorted(names.items()):
            if file is None:
                (folder / name).mkdir(mode=0o700, parents=True, exist_ok=True)
            elif not name.endswith(SHARED_MEMORY) and names.get(_folder(name), file) is None:
                path = folder / name
                path.write_bytes(file.survived(dice, share))
                path.chmod(0o600)


def _apply(names: dict[str, File | None], change: Change) -> None:
    if change.gone:
        names.pop(change.path, None)
    else:
        names[change.path] = change.file


def _folder(path: str) -> str:
    return path.rpartition("/")[0]
