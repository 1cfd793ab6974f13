"""Group commit for the tasks of an event loop: what many of them append meanwhile shares one transaction.

No thread waits for each of them: those who come while a commit is under way go together with the next one, and the loop
is free all the time.
"""

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from weakref import ref

from tidegate.core.errors import BadInput
from tidegate.store.sqlite_line import Pending

Place = tuple[Pending, "asyncio.Future[None]"]
"""In the line: what is to be written, and who is told."""


class Tasks:
    """Of one event loop. `commit` is called in a thread of the pool, with one batch at a time."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, commit: Callable[[Sequence[Pending]], None], pool: ThreadPoolExecutor
    ) -> None:
        self.loop = ref(loop)
        self._commit = commit
        self._pool = pool
        self._waiting: list[Place] = []
        self._busy = False

    def through(self, mine: Pending, loop: asyncio.AbstractEventLoop) -> "asyncio.Future[None]":
        """Done when `mine` has its outcome. Cancelled while it is being written, it may be written all the same."""
        told = loop.create_future()
        self._waiting.append((mine, told))
        if not self._busy:
            self._busy = True
            loop.call_soon(self._go, loop)  # whoever is ready now comes along
        return told

    def _go(self, loop: asyncio.AbstractEventLoop) -> None:
        batch = [place for place in self._waiting if not place[1].cancelled()]
        self._waiting = []
        if not batch:
            self._busy = False
            return
        try:
            done = loop.run_in_executor(self._pool, self._commit, [pending for pending, _ in batch])
        except RuntimeError:  # the pool is shut down with the store
            for pending, _ in batch:
                pending.fail(BadInput(f"The store is closed (session {pending.session!r}).", "Open it again."))
            self._tell(batch, None)
            self._busy = False
            return
        done.add_done_callback(lambda done: self._done(batch, done, loop))

    def _done(self, batch: list[Place], done: "asyncio.Future[None]", loop: asyncio.AbstractEventLoop) -> None:
        self._tell(batch, None if done.cancelled() else done.exception())
        self._go(loop)

    def _tell(self, batch: list[Place], fault: BaseException | None) -> None:
        for pending, told in batch:
            if told.cancelled():
                continue
            if pending.outcome is None:
                told.set_exception(fault or RuntimeError("the commit ended without an outcome"))
            else:
                told.set_result(None)
