"""Eight processes write while a ninth changes the folder; all are killed: python busy_folder.py FOLDER ACT ROUNDS.

Prints one JSON line for each round: how many messages were acknowledged, which of them are missing, what the doctor
says before and after the next opening of each session, and how often the change was completed before the kill.
"""

import json
import os
import random
import shutil
import signal
import sys
import time
import traceback
from collections.abc import Callable
from pathlib import Path

from tests.datafolder.interrupted import SECRET, examine
from tidegate.core.events import MessageAdded
from tidegate.core.messages import Text
from tidegate.datafolder.archive.transfer import export_session, import_session
from tidegate.datafolder.data_folder import DataFolder
from tidegate.datafolder.forget.forget import forget_session, forget_words
from tidegate.datafolder.retention import remove_expired_sessions, set_retention

WRITERS = 8
FIRST = 3
"""How many messages each writer has acknowledged before a kill can come."""


def fill(data: DataFolder, name: str) -> None:
    with data.open(name, "gpt-4o", window=3_000) as session:
        for number in range(4):
            session.add({"role": "user", "content": f"{SECRET} {number} " + "filler words here " * 200})
            session.add({"role": "assistant", "content": f"{number} " + "ok " * 200})


def write(root: Path, number: int) -> None:
    """Add messages until killed. A line in the file of acknowledgements says that one is stored."""
    data = DataFolder(root / "data")
    session = data.open(f"writer {number}", "gpt-4o", window=4_000)
    acknowledged = os.open(root / f"acknowledged {number}", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    for said in range(1_000_000):
        text = f"message {said} of {number}"
        (ident,) = session.add({"role": "user" if said % 2 == 0 else "assistant", "content": text})
        os.write(acknowledged, f"{ident} {text}\n".encode())
        if said % 5 == 0:
            session.fit()


def change(root: Path, act: str) -> None:
    """Make the change again and again until killed."""
    data = DataFolder(root / "data")
    finished = os.open(root / "finished", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    for number in range(1_000_000):
        if act == "export":
            export_session(data, "source", root / f"written {number}")
        elif act == "fork":
            data.fork("source", 5, f"fork {number}")
        elif act == "import":
            import_session(data, root / "exported", f"import {number}")
        else:
            fill(data, f"old {number}")
            if act == "retention":
                set_retention(data, f"old {number}", 30)
                data.clock = lambda: time.time() + 40 * 86_400
                remove_expired_sessions(data)
                data.clock = time.time
            elif act == "forget words":
                forget_words(data, f"old {number}", SECRET)
            else:
                forget_session(data, f"old {number}")
        os.write(finished, b".")


def start(run: Callable[[], None]) -> int:
    child = os.fork()
    if not child:
        try:
            run()
        except BaseException:  # noqa: BLE001 - it must not return into the program that started it
            traceback.print_exc()
        os._exit(1)
    return child


def count_acknowledged(root: Path) -> list[int]:
    return [path.read_bytes().count(b"\n") for path in root.glob("acknowledged *")]


def is_under_way(root: Path) -> bool:
    counts = count_acknowledged(root)
    return len(counts) == WRITERS and min(counts) >= FIRST and (root / "finished").stat().st_size > 0


def kill_round(root: Path, act: str, dice: random.Random) -> None:
    """Run all nine, then kill them in any order, some a moment later than the others."""
    (root / "finished").touch()
    children = [start(lambda number=number: write(root, number)) for number in range(WRITERS)]  # type: ignore[misc]
    children.append(start(lambda: change(root, act)))
    try:
        while not is_under_way(root):
            dead = [child for child in children if os.waitpid(child, os.WNOHANG) != (0, 0)]
            if dead:
                children = [child for child in children if child not in dead]
                raise AssertionError(f"{len(dead)} of nine processes ended by themselves")
            time.sleep(0.01)
        time.sleep(dice.uniform(0, 0.2))
        dice.shuffle(children)
        for child in children:
            os.kill(child, signal.SIGKILL)
            time.sleep(dice.choice((0, 0, 0.02)))
    finally:
        for child in children:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)


def find_missing(root: Path, data: DataFolder) -> list[str]:
    """The acknowledged messages that are not in the log as they were said."""
    missing: list[str] = []
    for number in range(WRITERS):
        lines = (root / f"acknowledged {number}").read_text().splitlines()
        with data.open(f"writer {number}", "gpt-4o", window=4_000) as session:
            said = {
                event.payload.message.id: [part.text for part in event.payload.message.parts if isinstance(part, Text)]
                for event in session.log.read()
                if isinstance(event.payload, MessageAdded)
            }
            session.prepare()
        missing += [line for line in lines if said.get(line.partition(" ")[0]) != [line.partition(" ")[2]]]
    return missing


def open_all(data: DataFolder) -> None:
    """Open what the change had just created, too: the opening of a session completes its own trace."""
    for info in data.store.sessions():
        data.open(info.name, "gpt-4o", window=4_000).close()


def main(folder: str, act: str, rounds: str) -> None:
    for number in range(int(rounds)):
        root = Path(folder) / str(number)
        root.mkdir()
        with DataFolder(root / "data") as data:
            fill(data, "source")
            export_session(data, "source", root / "exported")
        kill_round(root, act, random.Random(number))
        killed = examine(root / "data")
        with DataFolder(root / "data") as data:
            missing = find_missing(root, data)
            open_all(data)
        row = {
            "acknowledged": min(count_acknowledged(root)),
            "missing": missing,
            "killed": killed,
            "opened": examine(root / "data"),
            "finished": len((root / "finished").read_bytes()),
        }
        print(json.dumps(row), flush=True)
        shutil.rmtree(root)


if __name__ == "__main__":
    main(*sys.argv[1:])
