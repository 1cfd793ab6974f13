"""What the children of the crash suite do. The same scene does the same things every time."""

from tests.crash.acts import BATCHES, CROWD, LATER, OPEN, Op, Scene, laid, migrated, old_store, talk
from tests.crash.leaving import FORGET, RETENTION
from tests.crash.together import TOGETHER
from tests.crash.worlds import NAME, Settings, World
from tidegate import presets
from tidegate.datafolder.removal import remove_session


def _whole_files(world: World) -> None:
    """Every file the view names is there, no passage is in a file twice, and none is left half written."""
    folder = world.data.session_files(NAME)
    for name in folder.names():
        text = folder.read(name) or ""
        for number in range(1, 40):
            for letter in "ad":
                assert text.count(f"w{number}{letter} ") <= 1, f"{name} tells of w{number}{letter} twice"
    seen = world.session.render_request().to_bytes().decode()
    for name in _named(seen):
        assert folder.read(name), f"the view names {name}, which is not there"
    leftovers = [path.name for path in folder.root.rglob("*") if "writing" in path.name]
    assert len(leftovers) <= 1, leftovers


def _named(text: str) -> set[str]:
    words = text.replace("\\n", " ").replace('"', " ").replace(",", " ").split()
    return {word.rstrip(".)]:") for word in words if word.startswith(("large_tool_results/", "conversation_history/"))}


def _remembered_once(world: World) -> None:
    notes = world.data.notes
    entries = [entry.text for name in notes.names() for entry in notes.read_entries(name)]
    assert len(entries) == len(set(entries)), "something was remembered twice"
    assert entries, "nothing was remembered"


def _blobs_whole(world: World) -> None:
    blobs = world.data.blobs
    assert blobs is not None
    assert list(blobs.find_faults()) == []
    claimed = blobs.claimed_by(NAME)
    blobs.collect()
    assert blobs.claimed_by(NAME) == claimed
    assert sum(1 for _ in world.data.open_log(NAME).read()) == world.session.log.head, "a large record is gone"


def _forked(world: World) -> None:
    """The fork is whole and alive, and stays so when its source is gone with all that belonged to it."""
    world.shut()
    remove_session(world.data, NAME)
    fork = World(world.folder, world.settings, name=FORKED)
    assert sum(1 for _ in fork.data.open_log(FORKED).read()) == fork.session.log.head
    fork.prepare()
    for name in _named(fork.session.render_request().to_bytes().decode()):
        assert fork.data.session_files(FORKED).read(name), f"the view names {name}, which is not there"
    fork.close()


FORKED = "f"
FORK = Op("fork", lambda world: world.data.fork(NAME, world.session.log.head - 1, FORKED))
JUTUL = presets.load("jutul", {"evict_tokens": 350, "clear_at": 0.5, "summarize_at": 0.55})
COW = presets.load("cowagent", {"max_context_turns": 4})

SCENES = {
    scene.name: scene
    for scene in (
        Scene("first", (OPEN, *talk(1, 1))),
        Scene("append", (OPEN, *talk(8, 9)), lay=laid(7), settings=Settings(window=64_000)),
        Scene("batch", BATCHES, talks=False),
        Scene(
            "migration",
            (Op("open", lambda world: world.store),),
            Settings(migrations=LATER),
            old_store,
            migrated,
            False,
        ),
        Scene("compaction", (OPEN, *talk(4, 6)), Settings(JUTUL, 1_800), laid(3), _whole_files),
        Scene("memory", (OPEN, *talk(4, 6)), Settings(COW, 64_000), laid(3), _remembered_once, exact=False),
        Scene(
            "blob", (OPEN, *talk(2, 3, result=280_000)), Settings(window=16_000), laid(1, result=280_000), _blobs_whole
        ),
        Scene(
            "snapshot",
            (OPEN, *talk(10, 12), Op("undo", lambda w: w.session.history.undo()), *talk(13, 13)),
            Settings(window=5_000),
            laid(9),
        ),
        Scene("fork", (OPEN, *talk(3, 3, result=280_000), FORK), Settings(JUTUL, 3_000), laid(2), _forked),
        RETENTION,
        FORGET,
        TOGETHER,
        Scene("crowd", CROWD, talks=False),
    )
}
