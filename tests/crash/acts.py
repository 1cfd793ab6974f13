"""The operations that the scenes of the crash suite are made of."""

import asyncio
import sqlite3
from collections.abc import Callable
from typing import NamedTuple

from tests.crash.worlds import NAME, Json, Settings, World, turn
from tests.store.sqlite_files import noise
from tidegate.store.sqlite import SqliteStore
from tidegate.store.sqlite.tables import MIGRATIONS


class Op(NamedTuple):
    """One operation. If it is atomic, a cut leaves all of it or nothing; else it appends several records, in order.

    `again`: it does more than the log shows, and whoever was cut is to call it again.
    """

    name: str
    run: Callable[[World], object]
    atomic: bool = True
    says: str = ""
    again: bool = False


def nothing(_: World) -> None: ...


class Scene(NamedTuple):
    """`lay` makes what is there before; `look` judges, after all was done, what is not in the log.

    `exact`: a session that is opened again appends nothing, so that every later request is the same to the byte.
    `free`: what it does instead of operations, where chance decides on the order.
    """

    name: str
    ops: tuple[Op, ...]
    settings: Settings = Settings()
    lay: Callable[[World], object] | None = None
    look: Callable[[World], None] = nothing
    talks: bool = True
    exact: bool = True
    free: Callable[[World, Callable[[bytes], None]], None] | None = None


# --- operations on a session --------------------------------------------------------------------------------------

OPEN = Op("open", lambda world: world.session, atomic=False)
PREPARE = Op("prepare", lambda world: world.prepare(), atomic=False)


def _word(message: Json) -> str:
    return str(message["content"]).split()[0]


def say(message: Json) -> Op:
    return Op(f"add {_word(message)}", lambda world: world.session.add(message), says=_word(message))


def talk(first: int, last: int, *, result: int = 1_200) -> list[Op]:
    """Turns, with a request before everything the model says."""
    ops: list[Op] = []
    for number in range(first, last + 1):
        for message in turn(number, result=result):
            ops += [PREPARE] if message["role"] == "assistant" else []
            ops.append(say(message))
    return ops


def laid(turns: int, *, result: int = 1_200) -> Callable[[World], None]:
    def lay(world: World) -> None:
        for op in talk(1, turns, result=result):
            op.run(world)

    return lay


# --- operations on a store ----------------------------------------------------------------------------------------


def records(first: int, last: int) -> list[bytes]:
    return [b"%d " % n + b"the quick brown fox %d " % (n * 7919) * (n % 13) for n in range(first, last + 1)]


def batch(session: str, after: int, last: int) -> Op:
    return Op(f"append {session} {last}", lambda world: world.store.append(session, after, records(after + 1, last)))


def large(session: str, after: int) -> Op:
    return Op("append large", lambda world: world.store.append(session, after, [b"x%d" % after * 100_000]))


BATCHES = (
    batch(NAME, 0, 62),
    batch(NAME, 62, 63),
    batch(NAME, 63, 64),  # packs
    batch(NAME, 64, 70),
    batch(NAME, 70, 200),  # packs what is loose, and itself but for two
    large(NAME, 200),  # a large one is packed alone
    Op("fork", lambda world: world.store.fork(NAME, 100, "f")),
    batch("f", 100, 101),
    Op("delete", lambda world: world.store.delete(NAME)),
    batch(NAME, 0, 3),
)


ROOMS = tuple(f"room {number}" for number in range(5))


def crowd(last: int) -> Op:
    """Sessions that all come up to this record, in one commit. Called again, it goes on where it was refused."""

    async def act(world: World) -> None:
        store = world.store
        heads = {room: store.head(room) for room in ROOMS}
        await asyncio.gather(
            *(store.append_async(room, head, records(head + 1, last)) for room, head in heads.items() if head < last)
        )

    return Op(f"all to {last}", lambda world: asyncio.run(act(world)))


CROWD = (
    batch(NAME, 0, 1),
    crowd(1),
    crowd(40),
    batch(ROOMS[0], 40, 41),
    crowd(63),
    batch(ROOMS[1], 63, 64),  # packs what came with others
    crowd(64),  # packs the others
    crowd(66),
    crowd(67),
    Op("fork", lambda world: world.store.fork(ROOMS[2], 66, "f")),
    Op("rewrite", lambda world: world.store.rewrite(ROOMS[2], {3: b"[gone]", 66: b"[gone]"})),
    Op("delete", lambda world: world.store.delete(ROOMS[3])),
    crowd(68),
)
"""What comes together, stays loose together, and is packed, copied and removed."""


def more_columns(db: sqlite3.Connection) -> None:
    db.execute("ALTER TABLE sessions ADD COLUMN colour TEXT NOT NULL DEFAULT ''")


def another_table(db: sqlite3.Connection) -> None:
    db.execute("CREATE TABLE colours (name TEXT PRIMARY KEY, number INTEGER)")
    db.executemany("INSERT INTO colours VALUES (?, ?)", [(f"colour {n}", n) for n in range(300)])


LATER = (*MIGRATIONS, more_columns, another_table)


def old_store(world: World) -> None:
    """As this version leaves it: the migrations in LATER come after that."""
    store = SqliteStore(world.folder)
    for name, head in ((NAME, 150), ("f", 70)):
        store.append(name, 0, [noise(number) for number in range(1, head + 1)])
    store.close()


def migrated(world: World) -> None:
    with sqlite3.connect(world.folder / "tidegate.db") as db:
        assert db.execute("SELECT count(*) FROM colours").fetchone() == (300,)
        assert db.execute("SELECT DISTINCT colour FROM sessions").fetchall() == [("",)]
        found = [name for (name,) in db.execute("SELECT name FROM migrations ORDER BY applied")]
    db.close()
    assert found == [migration.__name__ for migration in LATER]
