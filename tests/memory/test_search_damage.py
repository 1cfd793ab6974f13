"""A damaged index is no loss: it is thrown away and made again."""

import os
import sqlite3
from pathlib import Path

import pytest

from tests.memory.tape import Tape, places
from tests.scale import scaled
from tidegate.memory.search import Search


def filled(path: Path) -> list[int]:
    search = Search(logs=Tape(), path=path)
    found = places(search, "port")
    search.close()
    return found


@pytest.mark.parametrize("damage", ["garbage", "empty", "truncated", "foreign", "version", "tables"])
def test_a_damaged_file_is_made_anew(tmp_path: Path, damage: str) -> None:
    path = tmp_path / "search.db"
    whole = filled(path)
    if damage == "garbage":
        path.write_bytes(b"not a database " * 1000)
    elif damage == "empty":
        path.write_bytes(b"")
    elif damage == "truncated":
        os.truncate(path, path.stat().st_size // 2)
    else:
        db = sqlite3.connect(path)
        if damage == "version":
            db.execute("UPDATE stamp SET text = 'tidegate search 0'")
        elif damage == "tables":
            db.execute("DROP TABLE words_data")
        else:
            path.unlink()
            db.close()
            db = sqlite3.connect(path)
            db.execute("CREATE TABLE stamp (x)")
        db.commit()
        db.close()
    search = Search(logs=Tape(), path=path)
    assert places(search, "port") == whole
    assert search.rebuild_count == (damage != "empty")
    search.close()
    assert filled(path) == whole, "and the new file is sound"


def test_damage_in_mid_use_is_survived(tmp_path: Path) -> None:
    path = tmp_path / "search.db"
    search = Search(logs=Tape(), path=path)
    whole = places(search, "port")
    other = sqlite3.connect(path)
    other.execute("UPDATE blocks SET data = x'00ff'")
    other.commit()
    assert places(search, "port") == whole
    assert search.rebuild_count == 1
    other.close()


def test_no_flipped_byte_raises(tmp_path: Path) -> None:
    path = tmp_path / "search.db"
    filled(path)
    sound = path.read_bytes()
    rebuilt = 0
    for at in range(0, len(sound), len(sound) // scaled(50)):
        for ending in ("-wal", "-shm"):
            (tmp_path / f"search.db{ending}").unlink(missing_ok=True)
        path.write_bytes(sound[:at] + bytes([sound[at] ^ 0xFF]) + sound[at + 1 :])
        search = Search(logs=Tape(), path=path)
        for query in ("port", "数据库", "rt"):
            search.search(query)
        search.forget_session("s")
        rebuilt += search.rebuild_count > 0
        search.close()
    assert rebuilt > 2
