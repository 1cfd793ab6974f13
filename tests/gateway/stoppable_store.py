"""A store that a test stops and starts, so that no timeout decides whether it answers."""

from typing import Any

from tidegate.store.errors import StoreUnreachable
from tidegate.store.memory import MemoryStore


class StoppableStore(MemoryStore):
    def __init__(self) -> None:
        super().__init__()
        self.is_stopped = False

    def append(self, *arguments: Any) -> int:
        self.check()
        return super().append(*arguments)

    def check(self) -> None:
        if self.is_stopped:
            raise StoreUnreachable("The store is gone.", "Wait.")
