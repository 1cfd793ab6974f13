"""A program that makes every kind of file with a umask that forbids nothing, and notes the mode of each that goes by.

python every_file.py FOLDER SECRET     writes FOLDER/seen.json: the modes by name
"""

import json
import os
import stat
import sys
from pathlib import Path
from typing import Any

from tidegate import DataFolder
from tidegate.cli.main import main
from tidegate.proof.session_generator import generate_session

MOVES = ("os.rename", "os.remove", "shutil.copyfile", "sqlite3.connect")


class Modes:
    """The modes of the regular files of a folder, as they were last seen."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.seen: dict[str, int] = {}

    def look(self, path: Path) -> None:
        try:
            status = path.lstat()
        except (OSError, ValueError):
            return
        if stat.S_ISREG(status.st_mode) and path.is_relative_to(self.home):
            self.seen[str(path.relative_to(self.home))] = stat.S_IMODE(status.st_mode)

    def look_at_all(self) -> None:
        for path in self.home.rglob("*"):
            self.look(path)

    def heed(self, event: str, arguments: tuple[Any, ...]) -> None:
        """Temporary files are there to be seen when they are moved into place, copied or removed."""
        if event in MOVES:
            for each in arguments[:2]:
                if isinstance(each, str | bytes | os.PathLike):
                    self.look(Path(os.fsdecode(each)))


def keep_sessions(modes: Modes, secret: str) -> None:
    data = DataFolder(modes.home / "data")
    for policy in ("jutul", "cowagent", "default"):
        with data.open(policy, "gpt-4o", policy=policy, window=4000, count="estimate") as session:
            for message in generate_session(4, seed=3):
                if message["role"] == "system":
                    session.set_system(str(message["content"]))
                    continue
                session.add(message)
                if message["role"] != "assistant":
                    session.prepare()
            if policy == "default":
                session.add({"role": "user", "content": secret + " and a very long line " * 12_000})
                session.prepare()
            data.notes.add_entry("something to remember", source=policy)
            data.notes.write("own.md", "a note of its own", about="own")
            data.open_search().search("something")
            modes.look_at_all()  # while the databases are open: their write-ahead logs are there
    data.close()


def run_commands(home: Path) -> None:
    recordings, out, folder = home / "recordings", home / "out", ["--data", str(home / "data")]
    for each in (recordings, out):
        each.mkdir()
    for place in range(2):
        recording = recordings / f"r{place}.jsonl"
        recording.write_text("\n".join(json.dumps(message) for message in generate_session(2, seed=place)))
        recording.chmod(0o600)
    lab = ["--window", "2000", "--policy", "ai", "--jobs", "1", "--cache", str(home / "cache")]
    reports = [f"--json={out}/a.json", f"--csv={out}/a.csv", f"--html={out}/a.html", f"--save={out}/kept.json"]
    for command in (
        ["view", "default", "--out", str(out / "s.html"), *folder],
        ["export", "default", str(out / "s.tidegate"), *folder],
        ["import", str(out / "s.tidegate"), "--as", "again", *folder],
        ["import", str(recordings / "r0.jsonl"), *folder],
        ["fork", "default", "forked", "--at", "20", *folder],
        ["forget", "default", "m3", "--yes", *folder],
        ["forget", "cowagent", "--yes", *folder],
        ["lab", str(recordings), *lab, *reports],
        ["replay", str(recordings / "r0.jsonl"), "--window", "2000", "--requests", str(out / "requests")],
    ):
        if main(command):
            raise SystemExit(f"failed: {command}")


def repair(home: Path) -> None:
    with (home / "data" / "tidegate.db").open("r+b") as file:
        file.seek(4096 * 3)
        file.write(b"\xff" * 9000)
    main(["doctor", "--repair", "--data", str(home / "data")])


if __name__ == "__main__":
    os.umask(0)
    modes = Modes(Path(sys.argv[1]))
    sys.addaudithook(modes.heed)
    keep_sessions(modes, sys.argv[2])
    run_commands(modes.home)
    repair(modes.home)
    modes.look_at_all()
    (modes.home / "seen.json").write_text(json.dumps(modes.seen))
