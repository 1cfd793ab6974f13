"""Scenes in which something leaves: a session whose days are over, and what someone wants to be forgotten."""

import hashlib
from pathlib import Path

from tests.crash.acts import OPEN, Op, Scene, say, talk
from tests.crash.worlds import NAME, NOW, Settings, World, turn
from tidegate import presets
from tidegate.datafolder.forget.forget import forget_message, forget_words
from tidegate.datafolder.removal import get_retention_days
from tidegate.datafolder.retention import remove_expired_sessions
from tidegate.store.errors import SessionNotFound

OLD = "old"
COW = presets.load("cowagent", {"max_context_turns": 2})
JUTUL = presets.load("jutul", {"evict_tokens": 350})
SECRETS = tuple(hashlib.sha256(b"secret %d" % n).hexdigest() for n in range(3))
"""Nothing that a compressor could make shorter: the bytes are found wherever they are."""


def _step(world: World, name: str) -> None:
    if world.step is not None:
        world.step(name)


# --- retention ----------------------------------------------------------------------------------------------------


def _two_sessions(world: World) -> None:
    """One that is kept for ever, and one with a large record, a trace and a snapshot, and its words in the index."""
    for name, settings in ((NAME, Settings()), (OLD, Settings(COW, 16_000))):
        mine = World(world.folder, settings, name=name)
        for number in (1, 2, 3):
            for message in turn(number, result=280_000 if number == 2 and name == OLD else 600):
                mine.session.add(message)
                mine.prepare()
        mine.data.open_search().search("file")
        mine.close()


def _nothing_of_it(world: World) -> None:
    data = world.data
    try:
        list(data.store.read(OLD))
    except SessionNotFound:
        pass
    else:
        raise AssertionError("the log is there")
    left = [path for path in world.folder.rglob("*") if path.name.startswith(OLD) and path.parent.name != "locks"]
    assert left == [], f"left over: {left}"
    assert data.blobs is not None
    assert data.blobs.claimed_by(OLD) == frozenset()
    assert not [path for path in (world.folder / "blobs").rglob("*") if len(path.name) == 64], "its blobs are there"
    assert get_retention_days(data, OLD) == 0
    assert OLD in (world.folder / "removed.jsonl").read_text(), "nobody said that it went"


RETENTION = Scene(
    "retention",
    (
        Op(
            "retain",
            lambda world: remove_expired_sessions(world.data, step=lambda name: _step(world, name)),
            again=True,
        ),
        OPEN,
        *talk(4, 4),
    ),
    Settings(now=NOW + 40 * 86_400),
    _two_sessions,
    _nothing_of_it,
)


# --- forget -------------------------------------------------------------------------------------------------------


def _secrets_said(world: World) -> None:
    """In a message, in a large record, in a file, in a summary's history and in notes."""
    for number in (1, 2, 3, 4):
        for message in turn(number, result=280_000 if number == 2 else 1_200):
            if message["role"] == "tool":
                message["content"] = f"{message['content']} {SECRETS[number % 3]}"
            world.session.add(message)
            world.prepare()
    world.session.add({"role": "user", "content": f"wx The key is {SECRETS[0]}, do not tell."})
    world.prepare()
    world.data.notes.add_entry(f"The key is {SECRETS[0]}.", source=NAME)
    world.data.open_search().search("key")


def _the_large_one(world: World) -> str:
    for event in world.data.open_log(NAME).read():
        if "w2c" in str(event.payload)[:400] or "[forgotten]" in str(event.payload):
            return f"m{event.seq}"
    raise AssertionError("it was never said")


def _forget_message(world: World) -> None:
    world.shut()
    forget_message(world.data, NAME, _the_large_one(world), step=lambda name: _step(world, name))


def _forget_words(world: World) -> None:
    world.shut()
    forget_words(world.data, NAME, SECRETS[0], step=lambda name: _step(world, name))


def _forgotten(world: World) -> None:
    """The first and the last of the three are gone from every file; the one that nobody wanted gone is there."""
    world.shut()
    gone = (SECRETS[0], SECRETS[2])
    for path in world.folder.rglob("*"):
        for secret in gone:
            assert not path.is_file() or secret.encode() not in path.read_bytes(), f"{path.name} has it still"
    kept = "".join(str(event.payload) for event in world.data.open_log(NAME).read())
    assert not any(secret in kept for secret in gone), "the log has it still"
    assert SECRETS[1] in kept, "something else was forgotten"
    assert world.data.blobs is not None
    assert list(world.data.blobs.find_faults()) == []
    assert not [path for path in _blobs(world.folder) if path.name not in world.data.blobs.claimed_by(NAME)]


def _blobs(folder: Path) -> list[Path]:
    return [path for path in (folder / "blobs").rglob("*") if len(path.name) == 64]


FORGET = Scene(
    "forget",
    (
        Op("forget message", _forget_message, atomic=False, again=True),
        Op("forget words", _forget_words, atomic=False, again=True),
        OPEN,
        say(next(turn(9))),
        *talk(10, 10),
    ),
    Settings(JUTUL, 16_000),
    _secrets_said,
    _forgotten,
)
