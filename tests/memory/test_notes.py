"""Notes: what is written is there, whole, once, inside its folder, and a person may change it."""

import os
import stat
from datetime import UTC
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.scale import scaled
from tidegate.core.errors import BadInput
from tidegate.core.tokens.estimate import TokenEstimator
from tidegate.disk.folder import safe_join
from tidegate.memory.notes import INDEX_NOTE, Notes, clean_note_text, parse_note_entries

NOON = 1_763_208_000.0  # 2025-11-15, 12:00:00 UTC
DAY = "2025-11-15.md"


@pytest.fixture
def notes(tmp_path: Path) -> Notes:
    return Notes(tmp_path / "data" / "memory", zone=UTC, clock=lambda: NOON)


def test_an_entry_as_it_stands_in_the_file(notes: Notes) -> None:
    assert notes.add_entry("The port is 8443.\n", source="s1", title="Ports") == DAY
    assert notes.add_entry("Use uv.", source="a · b\n", title=" two\nlines ", at=NOON + 61) == DAY
    assert notes.read(DAY) == (
        "# 2025-11-15\n\n## 12:00:00 · s1 · Ports\n\nThe port is 8443.\n\n## 12:01:01 · a - b · two lines\n\nUse uv.\n"
    )
    first, second = notes.read_entries(DAY)
    assert (first.time, first.source, first.title, first.text) == ("12:00:00", "s1", "Ports", "The port is 8443.")
    assert (second.source, second.title, second.line) == ("a - b", "two lines", 7)
    assert notes.add_entry("Tomorrow.", at=NOON + 86_400) == "2025-11-16.md"
    assert notes.read_entries("2025-11-16.md")[0].source == ""
    assert notes.daily_names() == [DAY, "2025-11-16.md"]


def test_the_same_text_is_written_once(notes: Notes) -> None:
    notes.add_entry("The port is 8443.", source="s1")
    before = notes.read(DAY)
    assert notes.add_entry("  \n".strip(" ") + "The port is 8443.  \n", source="s2", title="again") == DAY
    assert notes.add_entry("The port is 8443.", at=NOON + 86_400) == DAY, "another day is no new text"
    assert notes.read(DAY) == before
    assert notes.names() == [DAY]
    notes.add_entry("The port is 8443")
    assert len(notes.read_entries(DAY)) == 2, "a text that is part of another is another"


def test_an_edit_by_hand_is_picked_up_and_kept(notes: Notes) -> None:
    notes.add_entry("The port is 8443.", title="Ports")
    path = notes.folder.root / DAY
    path.write_text(path.read_text().replace("8443", "9000") + "\n## 13:00 · Lunch\n\nNoodles.\n\n## Menu\n\nSoup.\n")
    assert [entry.text for entry in notes.read_entries(DAY)] == ["The port is 9000.", "Noodles.\n\n## Menu\n\nSoup."]
    assert notes.read_entries(DAY)[1].title == "Lunch"
    notes.add_entry("The port is 8443.", title="Ports")
    assert [entry.text for entry in notes.read_entries(DAY)][2:] == ["The port is 8443."]
    path.unlink()
    assert notes.read_entries(DAY) == []
    notes.add_entry("The port is 8443.")
    assert len(notes.read_entries(DAY)) == 1


def test_bytes_that_are_no_utf8_survive_our_writing(notes: Notes) -> None:
    notes.add_entry("one")
    path = notes.folder.root / DAY
    path.write_bytes(path.read_bytes() + b"\ncaf\xe9\r\n")
    notes.add_entry("two")
    assert b"caf\xe9\n" in path.read_bytes()
    assert "caf\ufffd" in notes.read(DAY)


def test_an_edit_made_while_we_write_is_not_overwritten(notes: Notes) -> None:
    notes.write("a.md", "mine")
    path = notes.folder.root / "a.md"
    seen: list[str | None] = []

    def change(old: str | None) -> str:
        seen.append(old)
        if len(seen) == 1:
            path.write_text("theirs, saved meanwhile\n")
        return (old or "") + "added\n"

    assert notes.folder.update("a.md", change)
    assert seen == ["mine\n", "theirs, saved meanwhile\n"]
    assert path.read_text() == "theirs, saved meanwhile\nadded\n"


FORGED = st.sampled_from(
    ["## 12:00 · a · b", "\\## 12:00:01 · x", "## 12:00", "\\\\## 09:09", "# x", "", " ", "·", "\r"]
)
BODY = st.lists(FORGED | st.text(max_size=30), min_size=1, max_size=5).map("\n".join)


@settings(max_examples=scaled(40))
@given(bodies=st.lists(BODY, max_size=4), sources=st.lists(st.text(max_size=20), min_size=4, max_size=4))
def test_any_text_comes_back_as_it_is(
    tmp_path_factory: pytest.TempPathFactory, bodies: list[str], sources: list[str]
) -> None:
    notes = Notes(tmp_path_factory.mktemp("n"), zone=UTC, clock=lambda: NOON)
    kept: list[str] = []
    for body, source in zip(bodies, sources, strict=False):
        if clean_note_text(body):
            notes.add_entry(body, source=source, title=source)
            kept.append(clean_note_text(body))
    assert [entry.text for entry in notes.read_entries(DAY)] == list(dict.fromkeys(kept))


def test_rights(notes: Notes) -> None:
    notes.add_entry("x")
    notes.write("deep/er/a.md", "y", about="z")
    root = notes.folder.root
    folders = [root, root / "deep", root / "deep" / "er"]
    assert [stat.S_IMODE(folder.stat().st_mode) for folder in folders] == [0o700] * 3
    assert {stat.S_IMODE(path.stat().st_mode) for path in root.rglob("*") if path.is_file()} == {0o600}


def test_reading_makes_nothing(tmp_path: Path) -> None:
    notes = Notes(tmp_path / "memory")
    assert (notes.names(), notes.render_index(), notes.read_entries(DAY)) == ([], "", [])
    assert list(tmp_path.iterdir()) == []


def test_what_does_not_fit_is_refused_whole(tmp_path: Path) -> None:
    notes = Notes(tmp_path, max_entry=50, max_file=200, zone=UTC, clock=lambda: NOON)
    notes.add_entry("é" * 25)
    before = notes.read(DAY)
    with pytest.raises(BadInput, match=r"52 bytes, more than 50.*note"):
        notes.add_entry("é" * 26)
    notes.add_entry("b" * 50)
    with pytest.raises(BadInput, match=r"more than 200.*another note"):
        notes.add_entry("c" * 50)
    with pytest.raises(BadInput, match="max_file"):
        notes.write("big.md", "d" * 200)
    assert notes.read(DAY).startswith(before)
    assert len(notes.read_entries(DAY)) == 2
    assert notes.names() == [DAY]
    (tmp_path / "huge.md").write_bytes(b"x" * 201)
    with pytest.raises(BadInput, match="201 bytes"):
        notes.read("huge.md")
    with pytest.raises(BadInput, match="empty"):
        notes.add_entry(" \n ")


BAD_NAMES = (
    "|.|..|../x.md|/x.md|a/../../x.md|a//b.md|.x.md|a/.x/b.md|x.txt|x|x.md/|a\\b.md|x\0.md|x\n.md|a/b/c/d/e.md|"
    + ("n" * 250 + ".md")
).split("|")


def test_names_that_are_none(notes: Notes) -> None:
    notes.add_entry("x")
    for name in BAD_NAMES:
        for act in (notes.read, notes.remove, lambda bad: notes.write(bad, "text")):
            with pytest.raises(BadInput, match="name for a note"):
                act(name)


@given(
    name=st.text(max_size=20) | st.lists(st.sampled_from(["..", ".", "a", "/", "b.md", "~"]), max_size=9).map("/".join)
)
def test_no_name_leads_out(tmp_path_factory: pytest.TempPathFactory, name: str) -> None:
    root = tmp_path_factory.getbasetemp()
    try:
        path = safe_join(root, name, ".md")
    except BadInput:
        return
    assert path.is_relative_to(root.resolve())
    assert path != root.resolve()


def test_links_that_lead_out_are_refused(notes: Notes, tmp_path: Path) -> None:
    notes.write("real.md", "inside")
    root, outside = notes.folder.root, tmp_path / "outside"
    outside.mkdir()
    (outside / "secret.md").write_text("secret")
    (root / "file.md").symlink_to(outside / "secret.md")
    (root / "folder").symlink_to(outside)
    (root / "dangling.md").symlink_to(outside / "new.md")
    (root / "twice.md").symlink_to("file.md")
    (root / "inner.md").symlink_to("real.md")
    for name in ("file.md", "folder/secret.md", "dangling.md", "twice.md"):
        for act in (notes.read, notes.remove, lambda bad: notes.write(bad, "overwritten")):
            with pytest.raises(BadInput, match="leads out"):
                act(name)
    assert (outside / "secret.md").read_text() == "secret"
    assert not (outside / "new.md").exists()
    assert notes.names() == ["inner.md", "real.md"]
    assert notes.read("inner.md") == "inside\n"
    notes.write("inner.md", "through the link")
    assert notes.read("real.md") == "through the link\n"


def test_the_folder_itself_may_be_a_link(tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    (tmp_path / "memory").symlink_to("there")
    Notes(tmp_path / "memory").write("a.md", "x")
    assert (tmp_path / "there" / "a.md").read_text() == "x\n"


def test_planted_things_neither_hang_nor_redirect(notes: Notes, tmp_path: Path) -> None:
    notes.write("a.md", "x")
    root = notes.folder.root
    os.mkfifo(root / "pipe.md")
    (root / "dir.md").mkdir()
    for name in ("pipe.md", "dir.md"):
        with pytest.raises(BadInput, match="not a file"):
            notes.read(name)
    (tmp_path / "victim").write_text("whole")
    (root / ".writing").symlink_to(tmp_path / "victim")
    notes.write("a.md", "y")
    assert (tmp_path / "victim").read_text() == "whole"
    assert notes.names() == ["a.md"]


# The index.


def test_notes_are_listed_and_hand_written_lines_stay(notes: Notes) -> None:
    notes.write("ports.md", "8443 is the port", about="which ports we use")
    index = notes.folder.root / INDEX_NOTE
    index.write_text(index.read_text() + "\nAsk before deleting.\n")
    notes.write("style/python.md", "tabs never", about="how we write")
    notes.write("ports.md", "9000 is the port", about="ports\nof all services")
    assert index.read_text() == (
        "# Memory\n- [ports.md](ports.md): ports of all services\n\nAsk before deleting.\n"
        "- [style/python.md](style/python.md): how we write\n"
    )
    notes.remove("ports.md")
    assert "ports" not in index.read_text()
    assert "Ask before deleting." in index.read_text()


def test_the_prompt_gets_the_index_and_no_note(notes: Notes) -> None:
    notes.write("ports.md", "8443 is the port", about="which ports we use")
    for name in ("found.md", "ts.md", "with space.md", "linked too.md"):
        (notes.folder.root / name).write_text("put here by hand")
    index = notes.folder.root / INDEX_NOTE
    index.write_text(index.read_text() + "See [this](linked too.md).\n")
    notes.add_entry("a day's entry")
    notes.add_entry("another", at=NOON - 3 * 86_400)
    text = notes.render_index()
    assert "- [ports.md](ports.md): which ports we use" in text
    assert text.count("ports.md") == 2
    assert text.count("linked too.md") == 1
    for name in ("found.md", "ts.md", "with space.md"):
        assert f"\n- [{name}]({name})" in text
    assert "Daily notes (YYYY-MM-DD.md): 2, from 2025-11-12 to 2025-11-15" in text
    for body in ("8443", "by hand", "entry"):
        assert body not in text


@settings(max_examples=scaled(30))
@given(lines=st.lists(st.text(max_size=60), max_size=30), tokens=st.integers(0, 200), chars=st.integers(0, 300))
def test_the_index_keeps_its_bounds(
    tmp_path_factory: pytest.TempPathFactory, lines: list[str], tokens: int, chars: int
) -> None:
    notes = Notes(tmp_path_factory.mktemp("n"))
    notes.write(INDEX_NOTE, "\n".join(lines))
    whole = notes.render_index(10**9)
    text = notes.render_index(tokens, max_chars=chars)
    assert TokenEstimator().count_text(text) <= tokens
    assert chars == 0 or len(text) <= chars
    if text != whole and text:
        *kept, last = text.split("\n")
        assert kept == whole.split("\n")[: len(kept)]
        assert last == f"[{len(whole.split(chr(10))) - len(kept)} more lines: read MEMORY.md]"


def test_entries_of_a_text_without_any() -> None:
    assert parse_note_entries("") == parse_note_entries("# 2025-11-15\n\njust text\n## heading\n## 9:00 · x\n") == []
