"""Blobs: what was put is there, whole and once, and goes only when no session claims it."""

import hashlib
import os
import random
import resource
import signal
import stat
import zlib
from collections.abc import Callable
from itertools import count
from pathlib import Path

import pytest

from tests.memory.dying import ended, killed_at, started
from tidegate.core.errors import BadInput, NotKept
from tidegate.disk.atomic_files import hold_lock
from tidegate.store.blob_claims import encode_claim, parse_claims
from tidegate.store.blobs import Blobs, CollectedBlobs
from tidegate.store.errors import DamagedData

TEXT = b"a line of a log, said again and again\n" * 9000
NOISE = random.Random(3).randbytes(50_000)


def path_of(blobs: Blobs, sha: str) -> Path:
    return blobs.folder / sha[:2] / sha


def files(blobs: Blobs) -> list[str]:
    return sorted(path.name for path in blobs.folder.rglob("*") if path.is_file() and path.name != ".lock")


def test_what_was_put_is_read_again(tmp_path: Path) -> None:
    blobs = Blobs(tmp_path / "deep" / "blobs")
    for data in (TEXT, NOISE, b"", b"\0" * 300_000):
        sha = blobs.put("s", data)
        assert sha == hashlib.sha256(data).hexdigest()
        assert Blobs(blobs.folder).get(sha) == data
    assert len(blobs.claimed_by("s")) == 4
    assert path_of(blobs, blobs.put("s", TEXT)).stat().st_size < len(TEXT) / 50
    assert list(blobs.find_faults()) == []


def test_equal_content_is_kept_once(tmp_path: Path) -> None:
    blobs = Blobs(tmp_path)
    sha = blobs.put("a", NOISE)
    before = path_of(blobs, sha).stat().st_ino
    assert blobs.put("b", NOISE) == blobs.put("a", NOISE) == sha
    assert path_of(blobs, sha).stat().st_ino == before, "it was not written again"
    assert files(blobs) == sorted([sha, "a", "b"])
    assert len((tmp_path / "claims" / "a").read_bytes().splitlines()) == 1


def test_another_compressor_is_no_damage(tmp_path: Path) -> None:
    blobs = Blobs(tmp_path)
    path = path_of(blobs, blobs.put("a", TEXT))
    path.write_bytes(zlib.compress(TEXT, 9))
    before = path.stat().st_ino
    blobs.put("b", TEXT)
    assert path.stat().st_ino == before


def test_private(tmp_path: Path) -> None:
    blobs = Blobs(tmp_path / "blobs")
    blobs.put("s", NOISE)
    modes = {stat.S_IMODE(path.stat().st_mode) for path in blobs.folder.rglob("*") if path.is_file()}
    assert modes == {0o600}
    folders = [blobs.folder, *(path for path in blobs.folder.rglob("*") if path.is_dir())]
    assert {stat.S_IMODE(path.stat().st_mode) for path in folders} == {0o700}


# Caps.


def test_one_that_is_too_large_is_refused(tmp_path: Path) -> None:
    blobs = Blobs(tmp_path / "blobs", max_blob=1000)
    with pytest.raises(BadInput, match="has 1,001 bytes, more than 1,000"):
        blobs.put("s", b"x" * 1001)
    assert not blobs.folder.exists()
    blobs.put("s", b"x" * 1000)


def test_the_cap_of_a_session_and_of_all(tmp_path: Path) -> None:
    blobs = Blobs(tmp_path, max_session=120_000, max_all=180_000)
    shas = [blobs.put("a", NOISE), blobs.put("a", NOISE[::-1])]
    with pytest.raises(BadInput, match=r"take 100,0\d\d bytes on disk; with 25,\d{3} more it would be over 120,000"):
        blobs.put("a", NOISE[:25_000])
    for session, data in (("a", NOISE), ("b", NOISE), ("b", NOISE[10_000:])):
        blobs.put(session, data)
    with pytest.raises(BadInput, match=r"over 180,000"):
        blobs.put("c", NOISE[5:])
    with pytest.raises(BadInput, match=r"over 180,000"):
        Blobs(tmp_path, max_all=180_000).put("c", NOISE[5:])
    assert blobs.claimed_by("a") == set(shas)
    assert blobs.claimed_by("c") == set()
    blobs.release("b")
    blobs.collect()
    blobs.put("c", NOISE[5:])


# Damage.


def damages(packed: bytes) -> list[bytes]:
    return [b"", packed[:-1], packed[: len(packed) // 2], packed + b"x", packed[:20] + b"\0\1\2" + packed[23:], TEXT]


def test_damage_is_named_and_healed_by_putting_it_again(tmp_path: Path) -> None:
    blobs = Blobs(tmp_path)
    sha = blobs.put("s", NOISE)
    path = path_of(blobs, sha)
    for bad in [*damages(path.read_bytes()), zlib.compress(b"other"), None]:
        path.unlink() if bad is None else path.write_bytes(bad)
        with pytest.raises(DamagedData, match=sha):
            blobs.get(sha)
        assert [sha in problem for problem in blobs.find_faults()] == [True] * (bad is not None)
        assert blobs.put("s", NOISE) == sha
        assert blobs.get(sha) == NOISE
    assert list(blobs.find_faults()) == []


@pytest.mark.exhaustive
def test_a_small_file_that_unpacks_without_end_is_not_unpacked(tmp_path: Path) -> None:
    """In a process of its own: it takes the memory of the largest blob."""
    blobs = Blobs(tmp_path)
    sha = blobs.put("s", NOISE)
    bomb = zlib.compressobj()
    begin = bomb.flush(zlib.Z_FULL_FLUSH)
    megabyte = bomb.compress(bytes(1 << 20)) + bomb.flush(zlib.Z_FULL_FLUSH)  # after a full flush it can be repeated
    path_of(blobs, sha).write_bytes(begin + megabyte * 257)

    def work() -> None:
        with pytest.raises(DamagedData, match="unpacks to more than 268,435,456 bytes"):
            blobs.get(sha)

    assert ended(started(work)) == 0


def test_links_are_not_followed(tmp_path: Path) -> None:
    blobs = Blobs(tmp_path / "blobs")
    sha = blobs.put("s", NOISE)
    path = path_of(blobs, sha)
    outside = tmp_path / "outside"
    os.rename(path, outside)
    path.symlink_to(outside)
    with pytest.raises(DamagedData, match="cannot be opened"):
        blobs.get(sha)
    blobs.put("s", NOISE)
    assert not path.is_symlink()
    assert blobs.get(sha) == NOISE
    os.rename(path.parent, tmp_path / "shelf")
    path.parent.symlink_to(tmp_path / "shelf")
    for touch in (lambda: blobs.get(sha), lambda: blobs.put("s", NOISE)):
        with pytest.raises(DamagedData, match="is a link"):
            touch()
    blobs.release("s")
    assert blobs.collect() == CollectedBlobs(0, 0)
    assert (tmp_path / "shelf" / sha).exists()


@pytest.mark.parametrize("name", ["", "..", "../../x", "A" * 64, "0" * 63, "0" * 64 + "/.."])
def test_what_is_not_a_name_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(BadInput):
        Blobs(tmp_path).get(name)
    with pytest.raises(BadInput):
        Blobs(tmp_path).set_claims("s", [name])


# Claims and collecting.


def test_only_what_nobody_claims_is_collected(tmp_path: Path) -> None:
    blobs = Blobs(tmp_path)
    both, ours, theirs = blobs.put("a", b"both"), blobs.put("a", b"ours"), blobs.put("B/β", b"theirs")
    blobs.put("B/β", b"both")
    assert blobs.collect() == CollectedBlobs(0, 0)
    size = path_of(blobs, ours).stat().st_size
    blobs.release("a")
    blobs.release("never was")
    assert blobs.collect() == CollectedBlobs(1, size)
    assert (blobs.get(both), blobs.get(theirs)) == (b"both", b"theirs")
    blobs.set_claims("fork", [both])
    blobs.set_claims("B/β", [])
    assert blobs.collect().count == 1
    assert blobs.get(both) == b"both"
    assert blobs.claimed_by("fork") == {both}
    assert not blobs.claimed_by("B/β")


def test_leftovers_are_collected_and_strangers_are_not(tmp_path: Path) -> None:
    blobs = Blobs(tmp_path)
    sha = blobs.put("s", NOISE)
    for name in (f"{sha[:2]}/.{sha}.x.writing", "claims/.s.x.writing", "notes.txt", f"{sha[:2]}/notes.txt"):
        (tmp_path / name).write_bytes(b"12345")
    assert blobs.collect() == CollectedBlobs(2, 10)
    assert files(blobs) == sorted([sha, "s", "notes.txt", "notes.txt"])
    assert Blobs(tmp_path / "nowhere").collect() == CollectedBlobs(0, 0)


def test_where_a_claim_is_damaged_nothing_is_removed(tmp_path: Path) -> None:
    """Any byte of it, changed into any other digit: the blob it stands for stays."""
    blobs = Blobs(tmp_path)
    sha = blobs.put("s", NOISE)
    blobs.put("gone", TEXT)
    blobs.release("gone")
    claims = tmp_path / "claims" / "s"
    whole = claims.read_bytes()
    for place in range(len(whole)):
        claims.write_bytes(whole[:place] + (b"0" if whole[place : place + 1] != b"0" else b"1") + whole[place + 1 :])
        if place == len(whole) - 1:  # no line end: it was never acknowledged
            assert parse_claims(claims.read_bytes()).sizes == {}
            continue
        with pytest.raises(DamagedData, match="1 claims of session s"):
            blobs.collect()
        with pytest.raises(DamagedData, match="doctor"):
            blobs.claimed_by("s")
    claims.write_bytes(b"\xff\n" + whole)
    assert any("cannot be read" in problem for problem in blobs.find_faults())
    assert blobs.put("s", b"more"), "the session goes on"
    blobs.set_claims("s", [sha])
    assert blobs.collect().count == 2
    assert blobs.get(sha) == NOISE
    claims.unlink()
    claims.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(DamagedData):
        blobs.collect()
    with pytest.raises(NotKept):
        blobs.put("s", b"x")


@pytest.mark.parametrize("make", [os.mkfifo, os.mkdir])
def test_what_is_no_file_stops_nobody_and_removes_nothing(tmp_path: Path, make: Callable[[Path], None]) -> None:
    blobs = Blobs(tmp_path)
    sha = blobs.put("s", NOISE)
    (tmp_path / "claims" / "s").unlink()
    make(tmp_path / "claims" / "s")
    with pytest.raises(DamagedData, match="1 claims of session s"):
        blobs.collect()
    with pytest.raises((DamagedData, NotKept), match="claim"):
        blobs.put("s", b"new")
    assert len(list(blobs.find_faults())) == 1
    path = path_of(blobs, sha)
    path.unlink()
    make(path)
    with pytest.raises(DamagedData, match=sha):
        blobs.get(sha)
    os.rename(tmp_path / "claims" / "s", tmp_path / "away")
    assert blobs.collect().count == (make is os.mkfifo)


def test_a_claim_torn_by_a_power_cut_is_cut_off(tmp_path: Path) -> None:
    blobs = Blobs(tmp_path)
    first = blobs.put("s", b"first")
    claims = tmp_path / "claims" / "s"
    for torn in (b"ab01", b"\0" * 40, encode_claim("ab" * 32, 9)[:-1]):
        with claims.open("ab") as file:
            file.write(torn)
        assert blobs.claimed_by("s") >= {first}
        second = Blobs(tmp_path).put("s", b"second" + torn)
        assert blobs.claimed_by("s") >= {first, second}
    assert parse_claims(claims.read_bytes()).damaged_lines == 0
    assert len(blobs.claimed_by("s")) == 4


# Crashes, a full disk, many writers.


def test_killed_at_every_step_what_is_claimed_can_be_put_again(tmp_path: Path) -> None:
    steps = kept = 0
    while True:
        steps += 1
        blobs = Blobs(tmp_path / str(steps))
        old = blobs.put("s", b"old")
        alive = not killed_at(steps, lambda blobs=blobs: blobs.put("s", NOISE) and None)  # type: ignore[misc]
        sha = hashlib.sha256(NOISE).hexdigest()
        there = path_of(blobs, sha).exists()
        assert not there or sha in blobs.claimed_by("s"), "a blob comes behind its claim"
        assert not there or blobs.get(sha) == NOISE
        assert list(blobs.find_faults()) == [], "a claim that waits for its blob is no fault"
        blobs.collect()
        assert blobs.get(old) == b"old"
        assert path_of(blobs, sha).exists() == there
        blobs.put("s", NOISE)
        assert list(blobs.find_faults()) == []
        assert files(blobs) == sorted([old, sha, "s"]), "nothing is left over"
        kept += there
        if alive:
            break
    assert steps >= 8
    assert kept >= 1


@pytest.mark.parametrize("stride", [5, pytest.param(1, marks=pytest.mark.exhaustive)])
def test_killed_while_collecting_nothing_claimed_is_gone(stride: int, tmp_path: Path) -> None:
    for step in count(1, stride):
        blobs = Blobs(tmp_path / str(step))
        kept = blobs.put("s", NOISE)
        for number in range(5):
            blobs.put("gone", b"%d" % number)
        blobs.release("gone")
        alive = not killed_at(step, lambda blobs=blobs: blobs.collect() and None)  # type: ignore[misc]
        assert blobs.get(kept) == NOISE
        blobs.collect()
        assert files(blobs) == sorted([kept, "s"])
        if alive:
            assert step >= 8
            break


def test_a_full_disk_keeps_nothing_by_halves(tmp_path: Path) -> None:
    blobs = Blobs(tmp_path)
    blobs.put("s", b"old")

    def work(most: int) -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))
        with pytest.raises(NotKept, match=r"was not written: (File too large|No space)"):
            blobs.put("s", NOISE)

    for most in (0, 1, 75, 100, 20_000):
        assert ended(started(lambda most=most: work(most))) == 0  # type: ignore[misc]
        assert parse_claims((tmp_path / "claims" / "s").read_bytes()).damaged_lines == 0
        assert not (tmp_path / "claims" / "s").read_bytes().partition(b"\n")[2].strip(b"\n") or most == 20_000
    blobs.collect()
    blobs.put("s", NOISE)
    assert list(blobs.find_faults()) == []


def test_putting_and_collecting_exclude_each_other(tmp_path: Path) -> None:
    blobs = Blobs(tmp_path, patience=0.0)
    sha = blobs.put("s", b"old")
    with hold_lock(tmp_path / ".lock", shared=True):  # as another's put does
        blobs.put("s", b"new")
        for touch in (blobs.collect, lambda: blobs.set_claims("s", []), lambda: blobs.release("s")):
            with pytest.raises(NotKept, match="Another process"):
                touch()
    with hold_lock(tmp_path / ".lock"), pytest.raises(NotKept, match="Another process"):
        blobs.put("s", b"newer")
    assert sha in blobs.claimed_by("s")
    assert len(blobs.claimed_by("s")) == 2


def test_many_writers_and_a_collector(tmp_path: Path) -> None:
    def work(writer: int) -> None:
        blobs = Blobs(tmp_path)
        for number in range(10):
            blobs.put("s", b"all %d" % number)
            sha = blobs.put("s", b"of %d: %d" % (writer, number))
            if writer == 0:
                blobs.collect()
            blobs.get(sha)

    children = [started(lambda writer=writer: work(writer)) for writer in range(4)]  # type: ignore[misc]
    assert [ended(child) for child in children] == [0] * 4
    blobs = Blobs(tmp_path)
    wanted = [b"all %d" % number for number in range(10)]
    wanted += [b"of %d: %d" % (writer, number) for writer in range(4) for number in range(10)]
    assert blobs.claimed_by("s") == {hashlib.sha256(data).hexdigest() for data in wanted}
    assert len((tmp_path / "claims" / "s").read_bytes().splitlines()) == 50
    assert list(blobs.find_faults()) == []
