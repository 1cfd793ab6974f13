"""Reopen a stored session of tidegate and prepare its next call, for bench/store.py."""

from __future__ import annotations

import sys
from collections.abc import Iterator

from bench_conversation import WINDOW, make_messages
from command_runner import Job, serve_commands
from tidegate_runner import POLICY

from tidegate import Session
from tidegate.core.events import encode_event
from tidegate.core.policy.parser import parse_policy
from tidegate.core.stages import STAGES
from tidegate.datafolder.data_folder import DataFolder

MODEL = "none"
SETTINGS = {
    "policy": parse_policy(POLICY, source="bench", stages=STAGES),
    "window": WINDOW,
    "count": "chars/4",
}
"""The view that bench/prepare.py measures: the newest 300 messages or so, whatever the length of the log."""


class Reopening:
    def fill(self, folder: str, size: int) -> Job:
        """A session of so many messages as it grew, prepared now and then, closed as a user closes it.

        It is led through memory and its records are then put into the store many at a time: the same records, without
        a hundred thousand waits for the disk.
        """

        def job() -> dict[str, int]:
            records = list(_grow_session(size))
            data = DataFolder(folder)
            for at in range(0, len(records), 1000):
                data.store.append(str(size), at, records[at : at + 1000])
            with data.open(str(size), MODEL, **SETTINGS) as session:
                session.prepare()
            data.close()
            return {"events": len(records)}

        return job

    def reopen(self, folder: str, size: int) -> Job:
        def job() -> dict[str, int]:
            self.data = DataFolder(folder)
            self.opened = self.data.open(str(size), MODEL, **SETTINGS)
            self.opened.fit()
            return {"events": self.opened.log.head, "visible": len(self.opened.view.items)}

        return job

    def request(self) -> Job:
        """The first request of an opened session: all of it is rendered and judged."""
        return lambda: {"bytes": len(self.opened.render_request().to_bytes())}

    def leave(self) -> Job:
        def job() -> None:
            self.opened.close()
            self.data.close()

        return job

    def counted(self, folder: str, size: int) -> Job:
        """How often a text is counted while a session is opened and prepared; seen by the interpreter, not by us."""
        counter = type(Session(MODEL, **SETTINGS).counter)
        code = counter.count_text.__code__  # type: ignore[attr-defined]
        calls = 0

        def seen(frame: object, event: str, _: object) -> None:
            nonlocal calls
            calls += event == "call" and frame.f_code is code  # type: ignore[attr-defined]

        def job() -> dict[str, int]:
            sys.setprofile(seen)
            self.reopen(folder, size)()
            self.request()()
            sys.setprofile(None)
            opening = calls
            sys.setprofile(seen)
            self.opened.add({"role": "user", "content": "count this"})
            sys.setprofile(None)
            self.leave()()
            return {"calls": opening, "calls_by_one_message": calls - opening}

        return job


def _grow_session(size: int) -> Iterator[bytes]:
    session = Session(MODEL, **SETTINGS)
    fresh = 0
    for one in make_messages(0, size):
        session.add(one)
        fresh += 1
        if fresh >= 200 and one["role"] != "assistant":
            session.fit()
            session.record({"prompt_tokens": session.view.tokens})
            fresh = 0
    session.fit()
    return (encode_event(event) for event in session.log.read())


if __name__ == "__main__":
    serve_commands(Reopening())
