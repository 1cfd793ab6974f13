"""Any file: told by what it holds, read within bounds, and never a traceback."""

import gzip
import json
import random
from pathlib import Path
from typing import Any

import pytest

from tests.lab.importers import bench_samples as bench
from tests.lab.importers import log_samples as logs
from tests.lab.importers import samples
from tests.lab.importers.test_call_repair import check_pairs
from tests.scale import scaled
from tidegate.core.errors import BadInput
from tidegate.lab.importers import read_recordings, read_recordings_by_file
from tidegate.lab.importers.registry import RECORDING_FORMATS, find_recording_files
from tidegate.lab.importers.source_file import ImportLimits, SourceFile

SAMPLES: dict[str, bytes] = {
    "claude-code": samples.CLAUDE_CODE,
    "codex": samples.CODEX,
    "codex of old": samples.CODEX_OLD,
    "opencode": samples.OPENCODE,
    "copilot": samples.COPILOT,
    "gemini-cli": samples.GEMINI,
    "gemini-cli lines": samples.GEMINI_LINES,
    "pi": samples.PI,
    "openhands": bench.OPENHANDS,
    "swe-agent": bench.SWE_AGENT,
    "swe-agent calls": bench.SWE_AGENT_CALLS,
    "mini-swe-agent": bench.MINI,
    "mini-swe-agent text": bench.MINI_TEXT,
    "tau-bench": bench.TAU,
    "tau2-bench": bench.TAU2,
    "livemcp": bench.LIVEMCP,
    "spans": bench.SPANS,
    "spans otlp": bench.OTLP,
    "spans sdk": bench.SDK_SPANS,
    **{f"langchain {name}": dump for name, dump in logs.LANGCHAIN.items()},
    "requests openai": logs.OPENAI_LOG,
    "requests batch": logs.BATCH,
    "requests anthropic": logs.ANTHROPIC_LOG,
    "requests responses": logs.RESPONSES_LOG,
    "chat": logs.NORMAL,
}


def test_one_format_alone_is_the_first_to_know_it(tmp_path: Path) -> None:
    """No sample is taken for one of another agent: only the general formats at the end may know it, too."""
    for name, content in SAMPLES.items():
        (tmp_path / name).write_bytes(content)
        known = [form.FORMAT for form in RECORDING_FORMATS if form.recognizes(SourceFile(tmp_path / name))]
        assert known[0] == name.split(maxsplit=1)[0].replace("tau2", "tau"), name
        assert set(known[1:]) <= {"requests", "chat"}, name


def test_packed_is_the_same(tmp_path: Path) -> None:
    for name, content in SAMPLES.items():
        (tmp_path / "x").write_bytes(content)
        (tmp_path / "y").write_bytes(gzip.compress(content))
        plain, packed = read_recordings(tmp_path / "x"), read_recordings(tmp_path / "y")
        assert [each.messages for each in plain] == [each.messages for each in packed], name


def read_or_refuse(path: Path) -> bool:
    """Whether it could be read; if not, why not was said, with the file and what to do."""
    (found,) = read_recordings_by_file([path])
    if found.error is not None:
        assert str(path) in found.error.args[0]
        assert found.error.remedy
        return False
    for recording in found.recordings:
        check_pairs(recording.messages)
        json.dumps(recording.messages).encode()
        assert not recording.times or len(recording.times) == len(recording.messages)
    return True


def test_cut_anywhere(tmp_path: Path) -> None:
    for name, content in SAMPLES.items():
        path, packed = tmp_path / name, gzip.compress(content)
        for at in range(0, len(content), max(1, len(content) // scaled(20))):
            path.write_bytes(content[:at])
            read_or_refuse(path)
        for at in range(0, len(packed), max(1, len(packed) // scaled(10))):
            path.write_bytes(packed[:at])
            read_or_refuse(path)


def test_bytes_changed_anywhere(tmp_path: Path) -> None:
    for name, content in SAMPLES.items():
        chance = random.Random(name)
        for _ in range(scaled(12)):
            changed = bytearray(content)
            for _ in range(chance.choice([1, 4])):
                changed[chance.randrange(len(changed))] = chance.choice(b'\x00\xff"{}[],:0a\n')
            (tmp_path / name).write_bytes(changed)
            read_or_refuse(tmp_path / name)


ODD: list[Any] = [None, 0, -1.5, True, "", "x", "[]", [], {}, [None], [["x"]], {"a": 1}, {"type": {}}, "\ud800"]


def nodes(value: Any) -> list[tuple[Any, Any]]:
    found = []
    for key in value if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ():
        found.append((value, key))
        found.extend(nodes(value[key]))
    return found


def test_values_of_another_kind_anywhere(tmp_path: Path) -> None:
    """Valid JSON of the right outline, and inside it anything at all."""
    for name, content in SAMPLES.items():
        path, chance = tmp_path / name, random.Random(name)
        path.write_bytes(content)
        whole = [value for _, value in SourceFile(path).read_values()]
        read = 0
        for _ in range(scaled(25)):
            values = json.loads(json.dumps(whole))
            places = nodes(values)
            for _ in range(chance.choice([1, 2, 8])):
                holder, key = chance.choice(places)
                if isinstance(holder, dict) and chance.random() < 0.2:
                    holder.pop(key, None)
                else:
                    holder[key] = chance.choice(ODD)
            path.write_bytes(samples.lines(*values))
            read += read_or_refuse(path)
        assert read > 0, name


# --- the file itself ----------------------------------------------------------------------------------------------


def refused(path: Path, content: bytes, limits: ImportLimits | None = None) -> str:
    path.write_bytes(content)
    with pytest.raises(BadInput) as caught:
        read_recordings(path, limits) if limits else read_recordings(path)
    assert str(path) in caught.value.args[0]
    assert caught.value.remedy
    return str(caught.value.args[0]).removeprefix(str(path))


def test_what_is_no_recording_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "x"
    assert "no JSON" in refused(path, b"")
    assert "not a known format" in refused(path, b'{"some": "object"}')
    assert "not a known format" in refused(path, b"[1, 2]")
    assert "line 1: binary data" in refused(path, b"\0\1\2")
    assert "broken JSON" in refused(path, b"just words\n")
    assert "not UTF-8" in refused(path, b'{"role": "user", "content": "\xff"}\n')
    with pytest.raises(BadInput, match="not a file"):
        read_recordings(tmp_path / "none")


def test_a_file_that_is_cut_short_is_read_up_to_there(tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.write_bytes(logs.NORMAL[:-20])
    found = read_recordings(path)[0]
    assert len(found.messages) == len(bench.CHAT) - 1
    assert found.repairs == ["line 7 is cut short: read up to there"]
    path.write_bytes(gzip.compress(samples.lines(*bench.CHAT) * 400)[:-40])
    assert any("read up to there" in said for said in read_recordings(path)[0].repairs)


def test_a_broken_line_in_the_middle_is_refused_with_its_number(tmp_path: Path) -> None:
    lines = logs.NORMAL.splitlines(keepends=True)
    assert ", line 4: broken JSON" in refused(tmp_path / "x", b"".join([*lines[:3], b'{"role": \n', *lines[3:]]))
    pretty = samples.document(bench.CHAT)
    assert ", line 8: broken JSON" in refused(tmp_path / "x", pretty.replace(b'"content": "go"', b'"content" "go"'))


def test_a_message_that_is_none_is_refused_with_its_number(tmp_path: Path) -> None:
    more = b"".join(samples.lines(*bench.CHAT) for _ in range(20))
    assert ", line 121: not a message" in refused(tmp_path / "x", more + b'{"some": 1}\n')


def test_nesting_is_bounded(tmp_path: Path) -> None:
    deep = b'{"role": "user", "content": ' + b"[" * 90_000 + b"]" * 90_000 + b"}\n"
    assert "nested" in refused(tmp_path / "x", deep)
    less = b'{"role": "user", "content": "x", "more": ' + b"[" * 300 + b"]" * 300 + b"}\n"
    assert "nested more than 200 deep" in refused(tmp_path / "x", less)


def test_sizes_are_bounded(tmp_path: Path) -> None:
    path = tmp_path / "x"
    small = ImportLimits(total_bytes=50_000, value_bytes=5_000, value_pieces=100)
    assert "a line is larger" in refused(path, b'{"role": "user", "content": "' + b"x" * 6_000 + b'"}\n', small)
    assert "a JSON document is larger" in refused(path, b"[\n" + b"1,\n" * 3_000, small)
    assert "the number of values" in refused(path, b'{"role": "user", "content": [' + b"1," * 200 + b"1]}\n", small)
    many = samples.lines({"role": "user", "content": "x"}) * 2_000
    assert "the file, unpacked, is larger" in refused(path, many, small)


def test_many_small_values_are_bounded_too(tmp_path: Path) -> None:
    content = b'{"role": "user", "content": "x", "more": [' + b"[]," * 40 + b"[]]}\n"
    assert "values in the file" in refused(
        tmp_path / "x", content * 30, ImportLimits(value_pieces=1_000, total_pieces=2_000)
    )


def test_json_inside_a_text_is_bounded(tmp_path: Path) -> None:
    deep = json.dumps([{"role": "tool", "parts": [{"type": "tool_call_response", "id": "c", "response": "@"}]}])
    hostile = bench.SDK_SPANS.replace(
        json.dumps(json.loads(bench.SDK_SPANS)["attributes"]["gen_ai.input.messages"]).encode(),
        json.dumps(deep.replace('"@"', "[" * 800 + "]" * 800)).encode(),
    )
    assert hostile != bench.SDK_SPANS
    assert "holds no message" in refused(tmp_path / "x", hostile)


def test_a_small_packed_file_cannot_unpack_without_end(tmp_path: Path) -> None:
    bomb = gzip.compress(b'{"role": "user", "content": "' + b" " * 8_000_000)
    assert len(bomb) < 100_000
    assert "larger than" in refused(tmp_path / "x", bomb, ImportLimits(value_bytes=1_000_000))


def test_numbers_that_are_none(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(bench.TAU.replace(b'"reward": 1.0', b'"reward": NaN'))
    assert len(read_recordings(tmp_path / "x")) == 2


def test_a_lone_surrogate_becomes_text(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(b'{"role": "user", "content": "a\\ud800b"}\n')
    assert read_recordings(tmp_path / "x")[0].messages == [{"role": "user", "content": "a\ufffdb"}]


# --- folders ------------------------------------------------------------------------------------------------------


def test_a_folder_means_the_files_in_it(tmp_path: Path) -> None:
    (tmp_path / "b.jsonl").write_bytes(samples.PI)
    (tmp_path / "a.json").write_bytes(samples.GEMINI)
    (tmp_path / "c.jsonl").write_bytes(b"broken")
    (tmp_path / "README.md").write_text("not a session")
    (tmp_path / "raw").mkdir()
    (tmp_path / "raw" / "again.jsonl").write_bytes(samples.PI)
    assert [path.name for path in find_recording_files([tmp_path])] == ["a.json", "b.jsonl", "c.jsonl"]
    assert [each.name for each in read_recordings(tmp_path)] == ["ge-1", "pi-1"]
    assert [(each.path.name, each.error is None) for each in read_recordings_by_file([tmp_path])] == [
        ("a.json", True),
        ("b.jsonl", True),
        ("c.jsonl", False),
    ]


def test_a_folder_of_folders_means_the_files_in_these(tmp_path: Path) -> None:
    (tmp_path / "projects" / "one").mkdir(parents=True)
    (tmp_path / "projects" / "one" / "s.jsonl").write_bytes(samples.CLAUDE_CODE)
    assert [each.name for each in read_recordings(tmp_path)] == ["cc-1"]


def test_a_folder_without_any_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="no recorded session"):
        read_recordings(tmp_path)
    (tmp_path / "x.jsonl").write_bytes(b"broken")
    with pytest.raises(BadInput, match="broken JSON"):
        read_recordings(tmp_path)


def test_sessions_of_one_file_have_names_of_their_own(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(bench.OPENHANDS.replace(b"oh-2", b"oh-1"))
    assert [each.name for each in read_recordings(tmp_path / "x")] == ["oh-1", "oh-1-2"]
