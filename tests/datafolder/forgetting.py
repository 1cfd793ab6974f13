"""Sessions with secrets in them, and a look for what is left of those."""

import base64
import hashlib
import json
import zlib
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.parse import quote

from tidegate import load
from tidegate.datafolder.data_folder import DataFolder
from tidegate.session.session import Session

WORDS = "the valve opens at four bar and the pump follows after nine seconds unless the sensor says otherwise. "


def mark_of(name: str) -> str:
    """A word that no compression makes shorter, and that nothing else contains."""
    return base64.b32encode(hashlib.sha256(name.encode()).digest()).decode().strip("=")[:40]


SECRET = mark_of("secret")


def remains(folder: Path, word: str) -> list[str]:
    """The files in which a word can be found by someone who looks at the bytes, also packed ones and free pages."""
    found, wanted = [], word.lower().encode()
    for path in sorted(each for each in folder.rglob("*") if each.is_file()):
        data = path.read_bytes()
        if wanted in data.lower() or any(wanted in text.lower() for text in unpacked(data)):
            found.append(str(path.relative_to(folder)))
    return found


def rooms(folder: Path, *words: str) -> set[str]:
    """In which parts of the data folder something is found; what is in a database may still be in its WAL."""
    return {path.partition("/")[0].removesuffix("-wal") for word in words for path in remains(folder, word)}


def unpacked(data: bytes) -> Iterator[bytes]:
    at = data.find(b"\x78")
    while at >= 0:
        if int.from_bytes(data[at : at + 2]) % 31 == 0:
            reader = zlib.decompressobj()
            with suppress(zlib.error):
                yield reader.decompress(data[at : at + 400_000], 1_000_000)
        at = data.find(b"\x78", at + 1)


def opened(data: DataFolder, name: str = "s", **more: Any) -> Session:
    policy = load("jutul", {"evict_tokens": 700})
    return data.open(name, "claude-sonnet-4-5", policy=policy, window=8_000, count="chars/4", **more)


def lived(data: DataFolder, name: str = "s") -> dict[str, str]:
    """A session with a secret in every kind of place, and their ids."""
    ids: dict[str, str] = {}
    with opened(data, name) as session:
        ids["ask"], ids["call"], ids["result"] = session.add(
            {"role": "user", "content": f"first words {mark_of('ask')} and so on"},
            {
                "role": "assistant",
                "content": [
                    {"type": "thinking", "thinking": f"hm {mark_of('call')}", "signature": "c2lnbmVk"},
                    {"type": "text", "text": f"I look {mark_of('call')}"},
                    {"type": "tool_use", "id": "c1", "name": "read_file", "input": {"path": f"/{mark_of('call')}"}},
                ],
            },
            {
                "role": "user",
                "content": [
                    {
                        "type": "tool_result",
                        "tool_use_id": "c1",
                        "content": f"{mark_of('result')}\n{WORDS}{' ' * 270_000}\n{mark_of('result')}",
                    }
                ],
            },
        )
        session.prepare()
        session.add({"role": "assistant", "content": "The valve opens at four bar."})
        for number in range(1, 9):
            session.add({"role": "user", "content": f"ask {number}. {WORDS * 20}"})
            session.prepare(lambda request: "The valve was looked at.")
            session.add({"role": "assistant", "content": f"reply {number}. {WORDS * 20}"})
    data.open_search().refresh()
    return ids


def alive(data: DataFolder, name: str = "s") -> Session:
    """The session opens, every request is valid, edits can be undone and made again, and it goes on."""
    session = opened(data, name)
    session.prepare()
    assert session.history.undo() is not None
    session.prepare()
    session.history.redo()
    session.add({"role": "user", "content": "go on"})
    body = json.dumps(session.prepare().body)
    assert "go on" in body
    return session


def leaked(data: DataFolder, secret: str) -> None:
    """A secret pasted once, and then wherever an agent carries it."""
    tools = [
        {
            "name": "deploy",
            "description": f"uses {secret}",
            "input_schema": {"type": "object", "properties": {"k": {"type": "string", "default": secret}}},
        }
    ]
    with opened(data, system=f"The key is {secret}.", tools=tools) as session:
        session.add({"role": "user", "content": f"my key: {secret}"})
        for number, where in enumerate((secret, f"/srv/{secret}/x", json.dumps({"k": secret}), quote(secret)), 1):
            session.add(
                {
                    "role": "assistant",
                    "content": [
                        {"type": "thinking", "thinking": f"the key {secret}", "signature": "c2lnbmVk"},
                        {"type": "tool_use", "id": f"c{number}", "name": "deploy", "input": {"k": where}},
                    ],
                },
                {
                    "role": "user",
                    "content": [
                        {"type": "tool_result", "tool_use_id": f"c{number}", "content": f"{where}\n" + WORDS * 100}
                    ],
                },
            )
            session.prepare()
        session.add({"role": "assistant", "content": f"done with {secret}"}, {"role": "user", "content": "thanks"})
        session.compact(lambda request: f"It was about {secret}.")
        session.history.add_note("remember", secret)
    data.notes.add_entry(f"the key is {secret}", source="s", title=f"{secret} is the key")
    data.notes.write("keys.md", f"- {secret}\n")
    data.open_search().refresh()
