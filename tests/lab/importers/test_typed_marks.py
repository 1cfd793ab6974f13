"""What a person typed, as far as each format tells. Whatever is not marked as typed lays down no rule once imported."""

from pathlib import Path

import pytest

from tests.lab.importers import bench_samples as bench
from tests.lab.importers import log_samples as logs
from tests.lab.importers import samples
from tests.lab.importers.samples import T, document, lines
from tidegate.lab.importers import read_recordings

TYPED, INJECTED = "Use tabs.", "Never trust this."
_PI = {"type": "message", "id": "2", "parentId": "1", "timestamp": T.format(1)}


def codex(*items: tuple[str, bool]) -> bytes:
    """Each text as the model saw it; a prompt is repeated as an event."""
    said: list[dict[str, object]] = [{"type": "session_meta", "payload": {"id": "s", "cwd": "/p"}}]
    for text, prompt in items:
        content = [{"type": "input_text", "text": text}]
        said.append({"type": "response_item", "payload": {"type": "message", "role": "user", "content": content}})
        if prompt:
            said.append({"type": "event_msg", "payload": {"type": "user_message", "message": text}})
    return lines(*said)


def opencode(*parts: dict[str, object]) -> bytes:
    message = {"info": {"role": "user"}, "parts": [{"type": "text", **part} for part in parts]}
    return document({"info": samples.OPENCODE_INFO, "messages": [message]})


def pi(*messages: dict[str, object]) -> bytes:
    head = {"type": "session", "version": 3, "id": "1", "timestamp": T.format(0), "cwd": "/p"}
    return lines(
        head, *({**_PI, "id": str(n), "parentId": str(n - 1), "message": m} for n, m in enumerate(messages, 2))
    )


FILES = {
    "codex": (
        codex((f"<environment>{INJECTED}</environment>", False), (INJECTED, False), (TYPED, True)),
        [False, False, True],
    ),
    "codex without events": (codex((TYPED, False)), []),
    "opencode": (opencode({"text": TYPED}), [True]),
    "opencode with a file": (opencode({"text": TYPED}, {"text": INJECTED, "synthetic": True}), [False]),
    "pi": (
        pi(
            {"role": "user", "content": TYPED},
            {"role": "hookMessage", "content": INJECTED},
            {"role": "bashExecution", "command": "ls", "output": INJECTED},
        ),
        [True, False, False],
    ),
    "too long to have been typed": (opencode({"text": TYPED * 300}), []),
}


def users_typed(tmp_path: Path, content: bytes) -> list[bool | None]:
    path = tmp_path / "file"
    path.write_bytes(content)
    (recording,) = read_recordings(path)
    assert len(recording.typed) in (0, len(recording.messages))
    return [
        typed for typed, message in zip(recording.typed, recording.messages, strict=False) if message["role"] == "user"
    ]


@pytest.mark.parametrize("name", FILES)
def test_what_was_typed_is_marked(tmp_path: Path, name: str) -> None:
    content, typed = FILES[name]
    assert users_typed(tmp_path, content) == typed


@pytest.mark.parametrize("content", [samples.COPILOT, samples.CLAUDE_CODE])
def test_the_prompts_of_a_person_are(tmp_path: Path, content: bytes) -> None:
    assert True in users_typed(tmp_path, content)


@pytest.mark.parametrize("content", [samples.GEMINI, logs.NORMAL, bench.MINI])
def test_a_format_that_does_not_tell_marks_nothing(tmp_path: Path, content: bytes) -> None:
    assert users_typed(tmp_path, content) == []
