"""Kill a process inside a change of a data folder, at each of its file operations: python interrupted.py FOLDER ACT.

Prints one JSON line for each kill: the operation, what the doctor says then, whether opening another session completed
the change, and what the doctor says after that.
"""

import json
import os
import shutil
import sys
import time
from collections.abc import Callable
from itertools import count
from pathlib import Path

from tidegate.datafolder.archive.transfer import export_session, import_session
from tidegate.datafolder.data_folder import DataFolder
from tidegate.datafolder.doctor.examination import examine_folder
from tidegate.datafolder.forget.forget import forget_message, forget_session, forget_words
from tidegate.datafolder.retention import remove_expired_sessions, set_retention

WATCHED = frozenset(("os.rename", "os.remove", "os.link", "os.mkdir", "os.truncate", "shutil.rmtree", "open"))
SECRET = "8c1f0e secret phrase 77ab"
KILLED = 9


def prepare(root: Path) -> None:
    data = DataFolder(root / "data")
    with data.open("a", "gpt-4o", policy="jutul", window=3_000) as session:
        for number in range(5):
            session.add({"role": "user", "content": f"{SECRET} {number} " + "filler words here " * 300})
            session.add({"role": "assistant", "content": "ok " * 300})
            session.prepare(lambda request: f"{len(request.messages)} messages about {SECRET}.")
        session.add({"role": "user", "content": f"{SECRET} {'z' * 300_000}"})
    data.notes.add_entry(f"The phrase is {SECRET}.", source="a")
    data.open_search().search("phrase")
    export_session(data, "a", root / "exported")
    set_retention(data, "a", 30)
    data.close()


def act_on(data: DataFolder, act: str, root: Path) -> None:
    if act == "forget message":
        forget_message(data, "a", "m3")
    elif act == "forget words":
        forget_words(data, "a", SECRET)
    elif act == "forget session":
        forget_session(data, "a")
    elif act == "retention":
        data.clock = lambda: time.time() + 40 * 86_400
        assert [removed.session for removed in remove_expired_sessions(data)] == ["a"]
    elif act == "export":
        export_session(data, "a", root / "written")
    elif act == "fork":
        data.fork("a", 9, "new")
    else:
        import_session(data, root / "exported", "new")


def kill_in(run: Callable[[], None], number: int) -> str:
    """Run this in a child that kills itself before its file operation of this number. Empty if it has fewer."""
    reader, writer = os.pipe()
    child = os.fork()
    if child:
        os.close(writer)
        with os.fdopen(reader) as said:
            operation = said.read()
        os.waitpid(child, 0)
        return operation
    left = number

    def watch(event: str, arguments: tuple[object, ...]) -> None:
        nonlocal left
        writes = event != "open" or (isinstance(arguments[2], int) and arguments[2] & (os.O_WRONLY | os.O_RDWR))
        if event in WATCHED and writes:
            left -= 1
            if not left:
                os.write(writer, f"{event} {arguments[0]}".encode())
                os._exit(KILLED)

    sys.addaudithook(watch)
    run()
    os._exit(0)


def examine(root: Path) -> list[str]:
    data = DataFolder(root)
    found = [str(finding) for finding in examine_folder(data) if finding.severity != "fine"]
    data.close()
    return found


def has_secret(root: Path) -> list[str]:
    return [str(path) for path in root.rglob("*") if path.is_file() and SECRET.encode() in path.read_bytes()]


def main(folder: str, act: str) -> None:
    prepare(Path(folder))
    for number in count(1):
        root = Path(folder) / "data"
        copy = Path(folder) / "copy"
        shutil.copytree(root, copy)

        def run(copy: Path = copy) -> None:
            act_on(DataFolder(copy), act, Path(folder))

        operation = kill_in(run, number)
        if not operation:
            return
        killed = examine(copy)
        data = DataFolder(copy)
        data.open("another").close()
        sessions = sorted(info.name for info in data.store.sessions())
        data.close()
        written = Path(folder) / "written"
        if written.exists():
            imported = DataFolder(Path(folder) / "imported")
            import_session(imported, written)
            imported.close()
            shutil.rmtree(Path(folder) / "imported")
            written.unlink()
        row = {
            "operation": operation,
            "killed": killed,
            "opened": examine(copy),
            "sessions": sessions,
            "secret": has_secret(copy) if act == "forget words" else [],
        }
        print(json.dumps(row), flush=True)
        shutil.rmtree(copy)


if __name__ == "__main__":
    main(*sys.argv[1:])
