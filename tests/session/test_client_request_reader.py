"""Requests that repeat what was read before: they are read as if nothing were remembered."""

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.wire.test_splicing import BODIES, LIST_KEYS
from tidegate.datafolder.data_folder import DataFolder
from tidegate.session.following import FollowingSession
from tidegate.session.managed_request import ClientRequest, ClientRequestReader, ItemWriter
from tidegate.wire.splicing.units import HostUnit

each_dialect = pytest.mark.parametrize("dialect", BODIES)


def read_alone(dialect: str, body: dict[str, Any]) -> ClientRequest | None:
    return ClientRequestReader().read(dialect, json.dumps(body).encode(), "m")


def list_histories(dialect: str) -> list[dict[str, Any]]:
    """Growing histories, then a rewind, a changed item in the middle, other tools, and the first history again."""
    body: dict[str, Any] = json.loads(BODIES[dialect])
    key = LIST_KEYS[dialect]
    items = body[key]
    found = [{**body, key: items[:count]} for count in range(1, len(items) + 1)]
    found.append({**body, key: items[:2]})
    for place in range(len(items)):
        other = json.loads(json.dumps(items[place]).replace("start", "begin").replace("read", "look").replace("a", "b"))
        found.append({**body, key: [*items[:place], other, *items[place + 1 :]]})
    found.append({**body, "tools": []})
    found.append({**body, "system": "another", "instructions": "another"})
    return [*found, found[0], body]


@each_dialect
def test_what_a_request_repeats_is_read_the_same(dialect: str) -> None:
    reader = ClientRequestReader()
    for body in list_histories(dialect):
        text = json.dumps(body).encode()
        assert reader.read(dialect, text, "m") == read_alone(dialect, body)
        assert reader.read(dialect, text, "m", "named") == read_alone(dialect, body)


@each_dialect
def test_a_known_message_is_not_read_again(dialect: str) -> None:
    reader = ClientRequestReader()
    text = BODIES[dialect].encode()
    first, second = reader.read(dialect, text, "m"), reader.read(dialect, text, "m")
    assert first is not None
    assert second is not None
    assert all(one is other for one, other in zip(first.items, second.items, strict=True))
    decoded, again = first.body[LIST_KEYS[dialect]], second.body[LIST_KEYS[dialect]]
    assert isinstance(decoded, list)
    assert isinstance(again, list)
    assert decoded[0] is again[0]


def test_only_the_newest_conversations_are_remembered() -> None:
    reader = ClientRequestReader(most=2)
    text = BODIES["anthropic"].encode()
    first = reader.read("anthropic", text, "m", "a")
    for name in "bc":
        reader.read("anthropic", text, "m", name)
    again = reader.read("anthropic", text, "m", "a")
    assert first == again
    assert first is not None
    assert again is not None
    assert first.items[0] is not again.items[0]


@pytest.mark.parametrize("text", [b"", b"[]", b"{", b"\xff", b'"x"', b"[" * 100_000])
def test_what_is_no_object_is_not_read(text: bytes) -> None:
    assert ClientRequestReader().read("anthropic", text, "m") is None


def test_an_edited_item_that_the_host_changed_is_written_as_before(tmp_path: Path) -> None:
    """Edited items are made from bytes for each request: nothing that a framework does to them stays."""
    reader = ClientRequestReader()
    with DataFolder(tmp_path) as data, data.open("s", "gpt-4o", window=8_000) as session:
        following: FollowingSession[HostUnit] = FollowingSession(session)
        items: list[Any] = [{"role": "user", "content": "Read all pages."}]
        written: list[Any] = []
        for number in range(60):
            call = {"type": "function_call", "call_id": f"c{number}", "name": "read", "arguments": f'{{"n":{number}}}'}
            items += [call, {"type": "function_call_output", "call_id": f"c{number}", "output": f"{number} " * 300}]
            before = msgspec.json.encode(items)
            _, hosts, writer = reader.read_list([*items])
            request = following.prepare(hosts)
            written = writer.write(items, request.shown)
            assert written == ItemWriter().write(items, request.shown)
            own = set(map(id, items))
            for item in written:
                if id(item) not in own:
                    item["changed"] = True
            assert msgspec.json.encode(items) == before
        assert any("changed" in item for item in written)
        assert any(id(item) in set(map(id, items)) for item in written)
