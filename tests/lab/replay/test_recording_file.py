"""Recordings: what can be read, and that whatever cannot is an error that names file and line and says what to do."""

import gzip
import json
from pathlib import Path

import pytest

from tidegate.core.errors import BadInput
from tidegate.lab.replay import recording_file
from tidegate.proof.session_generator import generate_session

USER = b'{"role": "user", "content": "hello"}\n'
META = b'{"meta": {"model": "some"}}\n'


def messages(path: Path) -> list[dict[str, object]]:
    return [line.message for line in recording_file.read_chat_recording(path)]


def test_plain_and_packed_give_the_same(tmp_path: Path) -> None:
    said = list(generate_session(3, seed=1))
    text = "".join(json.dumps(message) + "\n" for message in said).encode()
    (tmp_path / "a.jsonl").write_bytes(text)
    (tmp_path / "b.jsonl.gz").write_bytes(gzip.compress(META + text))
    assert messages(tmp_path / "a.jsonl") == said
    assert messages(tmp_path / "b.jsonl.gz") == said


def test_lines_are_numbered_as_an_editor_does(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(b"\xef\xbb\xbf" + META + b"\n\n" + USER + b"   \n" + USER.strip())
    assert [line.number for line in recording_file.read_chat_recording(path)] == [4, 6]


def test_a_lone_surrogate_is_readable(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(b'{"role": "user", "content": "\\ud800"}\n')
    assert messages(path) == [{"role": "user", "content": "\ud800"}]


def test_gzip_is_known_by_its_bytes(tmp_path: Path) -> None:
    path = tmp_path / "packed.jsonl"
    path.write_bytes(gzip.compress(USER))
    assert len(messages(path)) == 1


BAD = {
    "broken JSON": (USER + b'{"role": "user", "content": \n', "line 2", "broken JSON", "one JSON object"),
    "unknown role": (META + USER + b'{"role": "wizard", "content": "x"}', "line 3", "'wizard'", "tool, user"),
    "role of a wrong type": (b'{"role": 7}', "line 1", "'7'", "tool, user"),
    "no role": (b'{"content": "x"}', "line 1", 'no "role"', "one message a line"),
    "meta twice": (META + META + USER, "line 2", 'no "role"', "one message a line"),
    "an array": (b'[{"role": "user", "content": "x"}]', "line 1", "an array", "jq"),
    "a number": (b"17", "line 1", "17, not a message", "one message a line"),
    "binary bytes": (bytes(range(256)), "line 1", "binary data", "UTF-8"),
    "UTF-16": ('{"role": "user"}'.encode("utf-16"), "line 1", "binary data", "UTF-8"),
    "Latin-1": ('{"role": "user", "content": "Grüße"}'.encode("latin-1"), "line 1", "not UTF-8", "UTF-8"),
    "deep nesting": (b"[" * 200_000, "line 1", "nested too deeply", "line"),
    "a number without end": (b'{"role": ' + b"9" * 5000 + b"}", "line 1", "broken JSON", "line"),
    "empty": (b"", "", "is empty", "one message a line"),
    "blank": (b"\n \n", "", "is empty", "one message a line"),
    "meta only": (META, "", "holds no message", "one message a line"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_file(name: str, tmp_path: Path) -> None:
    content, line, cause, remedy = BAD[name]
    path = tmp_path / "bad.jsonl"
    path.write_bytes(content)
    with pytest.raises(BadInput) as caught:
        messages(path)
    cause_text = caught.value.args[0]
    assert "bad.jsonl" in cause_text
    assert line in cause_text
    assert cause in cause_text
    assert remedy in caught.value.remedy


def test_what_stood_before_the_fault_was_given(tmp_path: Path) -> None:
    """It is a stream: a reader that stops early never meets the fault."""
    path = tmp_path / "bad.jsonl"
    path.write_bytes(USER * 3 + b"{")
    stream = recording_file.read_chat_recording(path)
    assert [next(stream).number for _ in range(3)] == [1, 2, 3]
    with pytest.raises(BadInput, match="line 4"):
        next(stream)


def test_a_line_without_end_does_not_fill_the_memory(tmp_path: Path) -> None:
    path = tmp_path / "bad.jsonl"
    path.write_bytes(b"x" * 5000)
    with pytest.raises(BadInput, match="line 1: longer than 1,000 bytes"):
        list(recording_file.read_chat_recording(path, max_line_bytes=1000))


def test_unreadable(tmp_path: Path) -> None:
    (tmp_path / "named.jsonl.gz").write_bytes(USER)
    packed = gzip.compress(b"".join(b'{"role": "user", "content": "%d"}\n' % number for number in range(5000)))
    (tmp_path / "cut.jsonl.gz").write_bytes(packed[: len(packed) // 2])
    broken = bytearray(packed)
    broken[len(broken) // 2] ^= 0xFF
    (tmp_path / "broken.jsonl.gz").write_bytes(bytes(broken))
    for name, cause in {
        "named.jsonl.gz": "not gzip data",
        "cut.jsonl.gz": "cannot be read further",
        "broken.jsonl.gz": "cannot be read further|broken JSON",
        "absent.jsonl": "No such file",
    }.items():
        with pytest.raises(BadInput, match=cause) as caught:
            messages(tmp_path / name)
        assert caught.value.remedy


def test_find_takes_the_recordings_of_a_folder_in_order(tmp_path: Path) -> None:
    for name in ("b.jsonl", "a.jsonl.gz", "notes.txt", "deeper/c.jsonl"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(USER)
    lone = tmp_path / "notes.txt"
    found = recording_file.find_chat_recordings([tmp_path, lone, tmp_path / "b.jsonl"])
    assert [path.name for path in found] == ["a.jsonl.gz", "b.jsonl", "notes.txt"]
    assert [recording_file.get_recording_name(path) for path in found] == ["a", "b", "notes"]


def test_find_in_an_empty_folder(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="no recording"):
        recording_file.find_chat_recordings([tmp_path])
