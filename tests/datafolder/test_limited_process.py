"""Data folders in processes with few file descriptors, without the right to write, or with little memory."""

import subprocess
import sys
from pathlib import Path

import pytest

from tidegate.core.events import MessageAdded
from tidegate.core.messages import Message, Text
from tidegate.datafolder.data_folder import DataFolder

OPEN_MANY = """
import resource, sys
resource.setrlimit(resource.RLIMIT_NOFILE, (256, 256))
from tidegate.datafolder.data_folder import DataFolder
data = DataFolder(sys.argv[1])
sessions = [data.open(f"s{number}") for number in range(500)]
for session in sessions:
    session.add({"role": "user", "content": "hello"})
for session in sessions[::100]:
    session.prepare()
print(data.locks.is_in_use("s499"), data.locks.is_in_use("none"), flush=True)
sys.stdin.read()
for session in sessions[1:]:
    session.close()
print(data.locks.is_in_use("s0"), data.locks.is_in_use("s499"))
"""


@pytest.mark.exhaustive
def test_five_hundred_sessions_are_open_with_a_limit_of_256_files(tmp_path: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", OPEN_MANY, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as opener:
        assert opener.stdout is not None
        assert opener.stdout.readline() == "True False\n"
        data = DataFolder(tmp_path)
        assert data.locks.is_in_use("s7"), "another process sees it"
        assert data.trace_path("s499").read_text().count("\n") > 1
        assert opener.communicate()[0] == "True False\n"
    assert opener.returncode == 0
    assert not data.locks.is_in_use("s0")
    assert len(data.store.sessions()) == 500
    data.close()


WITHOUT_RIGHTS = """
import ctypes, os, sys
for capability in (1, 2):  # root, too, now needs the permission bits to write or read
    ctypes.CDLL(None).prctl(24, capability, 0, 0, 0)
os.execv(sys.executable, [sys.executable, *sys.argv[1:]])
"""


def run_command(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", WITHOUT_RIGHTS, "-m", "tidegate", *arguments]
    return subprocess.run(command, check=False, capture_output=True, text=True)


@pytest.mark.exhaustive
@pytest.mark.parametrize("left_open", [pytest.param(False, marks=pytest.mark.exhaustive), True])
def test_a_folder_that_cannot_be_written_is_listed_and_read(tmp_path: Path, left_open: bool) -> None:
    root = tmp_path / "data"
    data = DataFolder(root)
    with data.open("build") as session:
        session.add({"role": "user", "content": "Never touch main."})
        if not left_open:
            data.close()
        folders = [root, *(path for path in root.rglob("*") if path.is_dir())]
        for path in root.rglob("*"):
            path.chmod(0o500 if path.is_dir() else 0o400)
        root.chmod(0o500)
        try:
            listed = run_command("sessions", "--data", str(root))
            shown = run_command("recall", "build", "main", "--data", str(root))
            refused = run_command("clear", "build", "--data", str(root))
        finally:
            for folder in folders:
                folder.chmod(0o700)
    assert (listed.stderr, listed.returncode) == ("", 0)
    assert "build" in listed.stdout
    assert listed.stdout.splitlines()[1].endswith("(open)")
    assert "Never touch main." in shown.stdout, shown.stderr
    assert refused.returncode != 0
    assert "readonly" in refused.stderr
    if left_open:
        data.close()


ADD_UNDER_A_MEMORY_LIMIT = """
import resource, sys
from tidegate.datafolder.data_folder import DataFolder
session = DataFolder(sys.argv[1]).open("s")
with open("/proc/self/statm") as file:
    size = int(file.read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (size + int(sys.argv[2]) * 1024 * 1024, resource.RLIM_INFINITY))
failures = 0
for length in [1_000, 3_000_000, 10_000_000, 30_000_000, 10, 5_000_000, 100]:
    try:
        (ident,) = session.add({"role": "user", "content": "word " * (length // 5)})
    except MemoryError:
        failures += 1
    else:
        print(ident, length, flush=True)
assert failures, "there was memory enough"
"""


@pytest.mark.exhaustive
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the size of the process is read from /proc")
@pytest.mark.parametrize("megabytes", [60, pytest.param(120, marks=pytest.mark.exhaustive)])
def test_a_lack_of_memory_loses_nothing_that_was_acknowledged(tmp_path: Path, megabytes: int) -> None:
    """The encoder of events used to crash the interpreter when its buffer could not grow."""
    command = [sys.executable, "-c", ADD_UNDER_A_MEMORY_LIMIT, str(tmp_path), str(megabytes)]
    ended = subprocess.run(command, check=False, capture_output=True, text=True)
    assert (ended.returncode, ended.stderr) == (0, "")
    acknowledged = dict(line.split() for line in ended.stdout.splitlines())
    assert {"10", "100", "1000"} <= set(acknowledged.values()), "small messages fit after a large one did not"
    data = DataFolder(tmp_path)
    stored = {
        event.payload.message.id: str(len("".join(text_of(event.payload.message))))
        for event in data.open_log("s").read()
        if isinstance(event.payload, MessageAdded)
    }
    assert {ident: stored.get(ident) for ident in acknowledged} == acknowledged
    data.close()


def text_of(message: Message) -> list[str]:
    return [part.text for part in message.parts if isinstance(part, Text)]
