"""Kill a process inside changes of a data folder, at file operations of theirs:

    python -m tests.datafolder.interrupted FOLDER MOST ACT...

MOST is how many operations of each act are tried, from all over it; 0 means all of them. Prints one JSON line for each
kill: the act, the operation, what the doctor says then, whether opening another session completed the change, and what
the doctor says after that.
"""

import json
import os
import shutil
import sys
import time
from collections.abc import Callable
from pathlib import Path

from tests.scale import spread
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
    """Run this in a child that kills itself before its file operation of this number, and return which one that was. If
    it has fewer, return how many it has."""
    reader, writer = os.pipe()
    child = os.fork()
    if child:
        os.close(writer)
        with os.fdopen(reader) as said:
            operation = said.read()
        os.waitpid(child, 0)
        return operation
    passed = 0

    def watch(event: str, arguments: tuple[object, ...]) -> None:
        nonlocal passed
        writes = event != "open" or (isinstance(arguments[2], int) and arguments[2] & (os.O_WRONLY | os.O_RDWR))
        if event in WATCHED and writes:
            passed += 1
            if passed == number:
                os.write(writer, f"{event} {arguments[0]}".encode())
                os._exit(KILLED)

    sys.addaudithook(watch)
    run()
    os.write(writer, str(passed).encode())
    os._exit(0)


def examine(root: Path) -> list[str]:
    data = DataFolder(root)
    found = [str(finding) for finding in examine_folder(data) if finding.severity != "fine"]
    data.close()
    return found


def has_secret(root: Path) -> list[str]:
    return [str(path) for path in root.rglob("*") if path.is_file() and SECRET.encode() in path.read_bytes()]


def try_act(folder: Path, act: str, most: int) -> None:
    copy = folder / "copy"

    def run() -> None:
        act_on(DataFolder(copy), act, folder)

    def run_copy(number: int) -> str:
        shutil.rmtree(copy, ignore_errors=True)
        shutil.copytree(folder / "data", copy)
        return kill_in(run, number)

    numbers = range(1, int(run_copy(0)) + 1)
    for number in spread(numbers, most) if most else numbers:
        (folder / "written").unlink(missing_ok=True)
        operation = run_copy(number)
        print(json.dumps({"act": act, "operation": operation, **look_at(folder, copy)}), flush=True)


def look_at(folder: Path, copy: Path) -> dict[str, object]:
    killed = examine(copy)
    data = DataFolder(copy)
    data.open("another").close()
    sessions = sorted(info.name for info in data.store.sessions())
    data.close()
    if (folder / "written").exists():
        imported = DataFolder(folder / "imported")
        import_session(imported, folder / "written")
        imported.close()
        shutil.rmtree(folder / "imported")
    return {"killed": killed, "opened": examine(copy), "sessions": sessions, "secret": has_secret(copy)}


def main(folder: str, most: str, *acts: str) -> None:
    prepare(Path(folder))
    for act in acts:
        try_act(Path(folder), act, int(most))


if __name__ == "__main__":
    main(*sys.argv[1:])
