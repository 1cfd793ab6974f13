"""The session of OpenAI Agents in our store: its items are notes in the log of a session.

The framework's package is not needed: its protocol `Session` consists of methods. Items that the framework takes back
stay in the log.
"""

import asyncio
from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias

import msgspec

from tidegate.core.notes import ItemsChanged, read_note
from tidegate.integrations.session_names import SessionName
from tidegate.integrations.threads import DataLocation, ThreadSessions
from tidegate.wire.parsing import encode_json_text

_Item: TypeAlias = Any
"""One of the framework's many typed dictionaries."""


class ReadItems(NamedTuple):
    """The items that the framework has read from a session."""

    name: SessionName
    items: list[_Item]


class TidegateSession:
    """A session of the framework (its protocol `Session`) whose items are notes in the log of a session of ours.

    `on_read` is called when the framework reads the items, which it does before each run, and sometimes after it.
    """

    session_settings: Any = None

    def __init__(
        self,
        session_id: str,
        threads: ThreadSessions | None = None,
        data: DataLocation = None,
        *,
        on_read: Callable[[ReadItems], object] = lambda read: None,
    ) -> None:
        self.session_id = session_id
        self._threads = threads or ThreadSessions(data)
        self._name = self._threads.name_thread(session_id)
        self._on_read = on_read

    async def get_items(self, limit: int | None = None) -> list[_Item]:
        """All items, or the latest `limit`."""
        items = await asyncio.to_thread(self._read_items)
        items = items if limit is None else items[-limit:] if limit > 0 else []
        self._on_read(ReadItems(self._name, items))
        return items

    async def add_items(self, items: list[_Item]) -> None:
        if items:
            await asyncio.to_thread(self._note, {"add": items})

    async def pop_item(self) -> _Item | None:
        """Remove the latest item from the list. The log keeps it."""
        items = await self.get_items()
        if items:
            await asyncio.to_thread(self._note, {"keep": len(items) - 1})
        return items[-1] if items else None

    async def clear_session(self) -> None:
        """Begin with an empty list. The log keeps what was said; `tidegate clear` and `forget` remove it."""
        await asyncio.to_thread(self._note, {"keep": 0})

    def _note(self, change: dict[str, object]) -> None:
        session = self._threads.follow(self._name.name).session
        session.history.refresh()
        session.history.append_note(ItemsChanged(encode_json_text(change)))

    def _read_items(self) -> list[_Item]:
        session = self._threads.follow(self._name.name).session
        session.history.refresh()
        items: list[_Item] = []
        for event in session.log.read():
            payload = event.payload
            if (note := read_note(payload, ItemsChanged)) is not None:
                change = msgspec.json.decode(note.text, type=dict[str, Any])
                items = [*items, *change["add"]] if "add" in change else items[: change["keep"]]
        return items
