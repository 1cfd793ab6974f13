"""The saved index of recall: used by the next process, without secrets, and gone with what is forgotten."""

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from isal import isal_zlib

from tests.scale import mark_all_but
from tidegate.core.events import Event
from tidegate.core.messages import user_message
from tidegate.datafolder.data_folder import DataFolder
from tidegate.datafolder.doctor.examination import examine_folder
from tidegate.datafolder.forget.forget import forget_message, forget_session
from tidegate.proof.session_generator import generate_session
from tidegate.session.recall import recall_text
from tidegate.store.log import LogReader

SECRET = "sk-ant-api03-Zm9vYmFyYmF6cXV4c2VjcmV0a2V5MTIzNDU2"

PLAN = "m3"
CHARS = 1_500_000


class CountingLog:
    """A log that notes the events that are read."""

    def __init__(self, log: LogReader) -> None:
        self._log = log
        self.seqs = set[int]()

    @property
    def head(self) -> int:
        return self._log.head

    def read(self, start: int = 1) -> Iterator[Event]:
        for event in self._log.read(start):
            self.seqs.add(event.seq)
            yield event


def fill(data: DataFolder, chars: int = CHARS) -> str:
    """A session long enough that its index is saved. Returns the id of a message with a word that no other has."""
    with data.open("s", "gpt-4o", window=100_000, count="chars/4") as session:
        session.add(user_message(f"The key is {SECRET}."))
        (ident,) = session.add(user_message("The zanzibar plan is option B."))
        seed = 0
        while chars > 0:
            seed += 1
            some = [each for each in generate_session(20, seed=seed) if each["role"] != "system"]
            session.add(*some)
            chars -= len(str(some))
    return ident


def ask(data: DataFolder, words: str) -> tuple[str, ...]:
    return recall_text(data.open_log("s"), words, index=data.recall_index("s")).ids


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data folder with a session whose index was not built yet."""
    root = tmp_path_factory.mktemp("stored") / "data"
    with DataFolder(root) as data:
        assert fill(data) == PLAN
    return root


@pytest.fixture(scope="module")
def indexed(stored: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("indexed") / "data"
    shutil.copytree(stored, root)
    with DataFolder(root) as data:
        assert ask(data, "zanzibar")[0] == PLAN
    return root


@pytest.fixture
def filled(indexed: Path, tmp_path: Path) -> Path:
    shutil.copytree(indexed, tmp_path / "data")
    return tmp_path / "data"


def test_the_next_process_reads_only_what_is_new(filled: Path) -> None:
    with DataFolder(filled) as data:
        log, index = CountingLog(data.open_log("s")), data.recall_index("s")
        index.log = log
        assert recall_text(log, "zanzibar", index=index).ids[0] == PLAN
        assert len(log.seqs) < 0.8 * log.head
    size = (filled / "recall" / "s").stat().st_size
    assert size < 0.35 * CHARS


@pytest.mark.exhaustive
def test_a_session_that_continues_has_the_same_index(filled: Path) -> None:
    with DataFolder(filled) as data, data.open("s", "gpt-4o", window=100_000, count="chars/4") as session:
        (ident,) = session.add(user_message("The timbuktu plan is option C."))
        assert session.history.search("timbuktu").ids[0] == ident
        assert session.history.search("zanzibar").ids[0] == PLAN


@pytest.mark.parametrize("damage", mark_all_but(["cut", "flipped", "foreign", "link"], "flipped", "link"))
def test_a_damaged_file_counts_as_none(filled: Path, damage: str) -> None:
    path = filled / "recall" / "s"
    data = path.read_bytes()
    path.unlink()
    if damage == "link":
        path.symlink_to(filled / "tidegate.db")
    else:
        middle = len(data) // 2
        flipped = data[:middle] + bytes([data[middle] ^ 1]) + data[middle + 1 :]
        path.write_bytes({"cut": data[:middle], "flipped": flipped, "foreign": b"something else"}[damage])
    with DataFolder(filled) as folder:
        assert ask(folder, "zanzibar")[0] == PLAN


def test_another_log_with_the_name_is_not_searched_with_the_old_index(filled: Path) -> None:
    kept = (filled / "recall" / "s").read_bytes()
    with DataFolder(filled) as data:
        forget_session(data, "s")
        assert not (filled / "recall" / "s").exists()
        with data.open("s", "gpt-4o", window=100_000, count="chars/4") as session:
            session.add(*(user_message(f"Something else, number {number}.") for number in range(5)))
        (filled / "recall" / "s").write_bytes(kept)
        assert ask(data, "zanzibar") == ()


def test_no_secret_is_in_the_file(filled: Path) -> None:
    saved = msgspec.msgpack.decode((filled / "recall" / "s").read_bytes().partition(b"\n")[2][12:])
    terms = isal_zlib.decompress(saved[4][0]).decode()
    assert "zanzibar" in terms
    assert SECRET.rpartition("-")[2].lower() not in terms


def test_what_is_forgotten_is_in_no_index(filled: Path) -> None:
    with DataFolder(filled) as reader:
        assert ask(reader, "zanzibar")[0] == PLAN
        with DataFolder(filled) as data:
            forget_message(data, "s", PLAN)
            assert not (filled / "recall" / "s").exists()
        assert ask(reader, "zanzibar") == (), "the index of another process, too"
    with DataFolder(filled) as data:
        assert ask(data, "zanzibar") == ()
        saved = msgspec.msgpack.decode((filled / "recall" / "s").read_bytes().partition(b"\n")[2][12:])
        assert "zanzibar" not in isal_zlib.decompress(saved[4][0]).decode()


def test_the_doctor_removes_the_index_of_a_session_that_is_gone(filled: Path) -> None:
    (filled / "recall" / "gone").write_bytes((filled / "recall" / "s").read_bytes())
    with DataFolder(filled) as data:
        list(examine_folder(data, repair=True))
    assert [path.name for path in (filled / "recall").iterdir()] == ["s"]


READER = """
import sys
from tidegate.datafolder.data_folder import DataFolder
from tidegate.session.recall import recall_text
data = DataFolder(sys.argv[1])
print("begins", flush=True)
recall_text(data.open_log("s"), "zanzibar", index=data.recall_index("s"))
print("done", flush=True)
"""


def kill_a_reader(root: Path, moment: str) -> bool:
    """Begin to build the index and kill that process. Whether it was killed before it had finished."""
    reader = subprocess.Popen([sys.executable, "-c", READER, str(root)], stdout=subprocess.PIPE, text=True)
    assert reader.stdout is not None
    assert reader.stdout.readline() == "begins\n"
    while moment != "at once" and not (root / "recall" / "s").exists():
        assert reader.poll() is None
    os.kill(reader.pid, signal.SIGKILL)
    shown = reader.stdout.read()
    reader.stdout.close()
    reader.wait()
    return shown == ""


@pytest.mark.parametrize("moment", [pytest.param("at once", marks=pytest.mark.exhaustive), "after the first save"])
def test_a_kill_while_it_is_built_loses_nothing(stored: Path, tmp_path: Path, moment: str) -> None:
    root = tmp_path / "data"
    shutil.copytree(stored, root)
    while not kill_a_reader(root, moment) or (moment == "at once" and (root / "recall" / "s").exists()):
        shutil.rmtree(root)  # on a busy machine it may have been quicker
        shutil.copytree(stored, root)
    with DataFolder(root) as data:
        head = data.open_log("s").head
    assert (root / "recall" / "s").exists() == (moment != "at once")
    with DataFolder(root) as data:
        assert data.open_log("s").head == head
        log, index = CountingLog(data.open_log("s")), data.recall_index("s")
        index.log = log
        assert recall_text(log, "zanzibar", index=index).ids[0] == PLAN
        assert (len(log.seqs) < head) == (moment != "at once"), "it goes on behind what was saved"
        fresh = recall_text(data.open_log("s"), "why did the test fail")
        assert recall_text(data.open_log("s"), "why did the test fail", index=index).ids == fresh.ids
