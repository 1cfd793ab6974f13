"""A data folder written by an earlier version opens byte for byte as that version left it, and continues.

`fixtures/README.md` says what is in the archive and how it was made.
"""

import hashlib
import json
import tarfile
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tidegate import Session
from tidegate.core.events import encode_event
from tidegate.datafolder.data_folder import DataFolder
from tidegate.datafolder.doctor.examination import examine_folder
from tidegate.presets import load

FIXTURES = Path(__file__).parent / "fixtures"
SESSIONS = [
    *(("8e63275", name) for name in ("openai", "claude", "gemini", "responses", "fork")),
    ("d48e08a", "gemini"),
]


class Recorded(msgspec.Struct, forbid_unknown_fields=True):
    """What the earlier version made of a session: after opening, and after adding `continuation`."""

    model: str
    policy: str
    window: int
    wire: str
    first_request: str
    continuation: list[dict[str, Any]]
    requests: list[str]
    undone: int | None
    log_digests: list[str]
    new_trace: str


def unpack(commit: str, to: Path) -> Path:
    with tarfile.open(FIXTURES / f"folder_{commit}.tar.xz") as archive:
        archive.extractall(to, filter="tar")  # keeps the modes of folders, which the doctor checks
    return to


def open_folder(unpacked: Path) -> DataFolder:
    return DataFolder(unpacked / "data", secrets=["correct-horse-battery"], clock=lambda: 1_700_100_000.0)


def read_recorded(unpacked: Path, name: str) -> Recorded:
    return msgspec.json.decode((unpacked / "recorded" / f"{name}.json").read_bytes(), type=Recorded)


def continue_session(session: Session, messages: list[dict[str, Any]]) -> list[str]:
    """Add the messages as the recording did, and return the requests that were prepared on the way."""
    requests = []
    for message in messages:
        if message["role"] == "user":
            requests.append(session.prepare().to_bytes().decode())
        session.add(message)
    return [*requests, session.prepare().to_bytes().decode()]


def without_additions(text: str) -> object:
    """A request without what this version adds: Gemini's signatures after an edit, and rules that the user typed."""

    def keep(value: Any) -> Any:
        if isinstance(value, list):
            return [keep(each) for each in value if not str(dict(each).get("text", "")).startswith("[Ledger")]
        if isinstance(value, dict):
            return {name: keep(each) for name, each in value.items() if name != "thoughtSignature"}
        return value

    body = json.loads(text)
    return {**body, "contents": [{**each, "parts": keep(each["parts"])} for each in body.get("contents", [])]}


@pytest.mark.parametrize("without_snapshots", [False, True])
@pytest.mark.parametrize(("commit", "name"), SESSIONS)
def test_a_session_of_an_earlier_version_is_replayed_byte_for_byte_and_continues(
    tmp_path: Path, commit: str, name: str, without_snapshots: bool
) -> None:
    unpacked = unpack(commit, tmp_path)
    recorded = read_recorded(unpacked, name)
    trace = unpacked / f"data/traces/{name}.jsonl"
    old_trace = trace.read_text() if trace.exists() else ""
    if without_snapshots:
        for snapshot in (unpacked / "data/views").iterdir():
            snapshot.unlink()
    data = open_folder(unpacked)
    stored = data.open_log(name).head
    with data.open(
        name,
        recorded.model,
        policy=recorded.policy,
        window=recorded.window,
        wire=recorded.wire,
        count="estimate",
    ) as session:
        assert without_additions(session.render_request().to_bytes().decode()) == without_additions(
            recorded.first_request
        )
        requests = continue_session(session, recorded.continuation)
        undone = session.history.undo()
        requests.append(session.render_request().to_bytes().decode())
    if recorded.policy != "default":  # it makes other edits now; stored ones are replayed as they were
        # {thread} in the name of a saved file is the session's name; the earlier version always wrote "main"
        saved = f"conversation_history/{name}.md"
        expected = [text.replace("conversation_history/main.md", saved) for text in recorded.requests]
        assert list(map(without_additions, requests)) == list(map(without_additions, expected))
        assert undone == recorded.undone
    digests = [hashlib.sha256(encode_event(event)).hexdigest()[:16] for event in data.open_log(name).read()]
    assert stored > 20
    assert digests[:stored] == recorded.log_digests[:stored]
    assert trace.read_text().startswith(old_trace)
    data.close()


def test_an_old_snapshot_is_not_used(tmp_path: Path) -> None:
    recorded = read_recorded(unpack("d48e08a", tmp_path), "gemini")
    data = open_folder(tmp_path)
    assert data.snapshots.load("gemini", data.open_log("gemini"), load(recorded.policy).meter) is None
    data.close()


@pytest.mark.parametrize("commit", ["8e63275", "d48e08a"])
def test_doctor_finds_only_void_snapshots_in_an_older_folder(commit: str, tmp_path: Path) -> None:
    data = open_folder(unpack(commit, tmp_path))
    faults = [finding for finding in examine_folder(data) if finding.severity != "fine"]
    assert "gemini" in {finding.session for finding in faults}
    assert all("snapshot" in finding.what for finding in faults)
    assert {finding.severity for finding in examine_folder(data, repair=True)} <= {"fine", "mended"}
    data.close()
