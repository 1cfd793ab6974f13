"""A data folder of an earlier version opens byte for byte as that version left it, continues, and is not refused.

`fixtures/write_folder.py` says what is in the archive, and wrote it with the code of the commit in its name.
"""

import hashlib
import json
import sqlite3
import tarfile
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.datafolder.fixtures.write_folder import FORK, SECRET, SESSIONS, open_session
from tidegate.cli.main import main
from tidegate.core.events import encode_event
from tidegate.datafolder.data_folder import DataFolder
from tidegate.datafolder.doctor.examination import examine_folder

ARCHIVE = Path(__file__).parent / "fixtures" / "folder_87a4a80a.tar.xz"


@pytest.fixture
def unpacked(tmp_path: Path) -> Path:
    with tarfile.open(ARCHIVE) as archive:
        archive.extractall(tmp_path, filter="tar")  # keeps the modes of folders, which the doctor checks
    return tmp_path


def read_recorded(unpacked: Path) -> dict[str, Any]:
    recorded: dict[str, Any] = json.loads((unpacked / "recorded.json").read_bytes())
    return recorded


@pytest.mark.parametrize("without_snapshots", [False, True])
def test_sessions_of_an_earlier_version_open_byte_for_byte_and_continue(
    unpacked: Path, without_snapshots: bool
) -> None:
    recorded = read_recorded(unpacked)
    assert {*recorded} == {*SESSIONS, FORK}
    if without_snapshots:
        snapshots = [*(unpacked / "data" / "views").iterdir()]
        assert snapshots
        for snapshot in snapshots:
            snapshot.unlink()
    with DataFolder(unpacked / "data", secrets=[SECRET]) as data:
        for name, of_session in recorded.items():
            trace = unpacked / "data" / "traces" / f"{name}.jsonl"
            lines = trace.read_text() if trace.exists() else ""
            with open_session(data, name) as session:
                assert session.render_request().to_bytes().decode() == of_session["request"], name
                assert [line.text for line in session.rules] == of_session["rules"]
                session.add({"role": "user", "content": "Go on with the next file."})
                assert "Go on with the next file." in session.prepare().to_bytes().decode()
            events = [encode_event(event) for event in data.open_log(name).read()]
            stored = [hashlib.sha256(event).hexdigest()[:16] for event in events[: len(of_session["events"])]]
            assert len(stored) > 50
            assert stored == of_session["events"]
            assert trace.read_text().startswith(lines)


def test_the_doctor_finds_at_most_void_snapshots(unpacked: Path) -> None:
    with DataFolder(unpacked / "data", secrets=[SECRET]) as data:
        faults = [finding for finding in examine_folder(data) if finding.severity != "fine"]
        assert all("snapshot" in finding.what for finding in faults), faults
        assert {finding.severity for finding in examine_folder(data, repair=True)} <= {"fine", "mended"}


def test_the_folder_of_a_newer_version_is_refused_in_one_line(
    unpacked: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    database = unpacked / "data" / "tidegate.db"
    with closing(sqlite3.connect(database)) as db, db:
        db.execute("INSERT INTO migrations VALUES ('a_later_change', 2e9)")
    before = database.read_bytes()
    assert main(["sessions", "--data", str(unpacked / "data")]) == 1
    assert "was written by a newer tidegate: this one does not know its change 'a_later_change'" in (
        text := " ".join(capsys.readouterr().err.split())
    )
    assert "Install that version or a newer one" in text
    assert database.read_bytes() == before
