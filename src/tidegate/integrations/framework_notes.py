"""State notes by the agent's own model, through the framework that calls it.

The question is the request of the last call with one message more, sent as the framework sends its calls: with the same
tools and settings. So the provider reads it from its cache. It is put beside the agent's work, and what arrived is
stored when the next call is prepared. Calls in the answer are not run.
"""

import asyncio
import threading
from collections.abc import Awaitable, Callable
from contextvars import copy_context
from typing import Any, Generic, NamedTuple, TypeVar

from tidegate.core.messages import Message, Text
from tidegate.core.notes import SideCost
from tidegate.session.note_writer import (
    NOTE_PURPOSE,
    NOTE_TIMEOUT_SECONDS,
    NoteRefused,
    explain_failure,
)
from tidegate.session.session import Session
from tidegate.session.state_notes import WriteTask, Written
from tidegate.session.summaries.model_question import ModelAnswer
from tidegate.wire.answers import read_usage

HostObject = TypeVar("HostObject")

AskMessages = Callable[[list[HostObject]], ModelAnswer | Awaitable[ModelAnswer]]
"""Sends messages as the framework sends those of a call, and returns the text and the usage of the answer."""


class _Arrival(NamedTuple):
    task: WriteTask
    outcome: Written | NoteRefused
    cost: SideCost | None


class FrameworkNotes(Generic[HostObject]):
    """Writes the notes of the sessions of an adapter: one at a time for each session."""

    def __init__(self, insert: Callable[[Message], HostObject]) -> None:
        self._insert = insert
        self._lock = threading.Lock()
        self._running: set[str] = set()
        self._arrived: dict[str, list[_Arrival]] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    def take_task(self, name: str, session: Session, last_id: str, *, turn_ended: bool) -> WriteTask | None:
        """The task of the note that is due after a call, if there is one. The caller has to start it."""
        with self._lock:
            if name in self._running or name in self._arrived or not session.state_notes.is_wanted:
                return None
            task = session.state_notes.make_task(last_id) if session.state_notes.is_due(turn_ended=turn_ended) else None
            if task is not None:
                self._running.add(name)
            return task

    def start(
        self, name: str, session: Session, task: WriteTask, messages: list[HostObject], ask: AskMessages[HostObject]
    ) -> None:
        """Put the question in the background: as a task of the running event loop, or else in a thread."""
        question_messages = [*messages, self._insert(Message("user", (Text(task.instruction),)))]
        work = self._write(name, session, task, lambda: ask(question_messages))
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            context = copy_context()  # a framework finds its run there
            threading.Thread(target=lambda: context.run(asyncio.run, work), daemon=True).start()
        else:
            running = loop.create_task(work)
            self._tasks.add(running)
            running.add_done_callback(self._tasks.discard)

    async def _write(self, name: str, session: Session, task: WriteTask, ask: Callable[[], Any]) -> None:
        outcome: Written | NoteRefused
        cost = None
        try:
            async with asyncio.timeout(NOTE_TIMEOUT_SECONDS):
                reply = ask()
                answer: ModelAnswer = await reply if isinstance(reply, Awaitable) else reply
            if answer.usage:
                cost = SideCost(session.model, read_usage(answer.usage), NOTE_PURPOSE)
            outcome = await asyncio.to_thread(session.state_notes.check, task, answer.text)
        except Exception as failure:  # noqa: BLE001 - it is not our code, and nobody waits for this task
            outcome = explain_failure(failure)
        finally:
            with self._lock:
                self._running.discard(name)
        with self._lock:
            self._arrived.setdefault(name, []).append(_Arrival(task, outcome, cost))

    def collect(self, name: str, session: Session) -> None:
        """Store what has arrived for a session, or note why there is no note. Call it where its calls are prepared."""
        with self._lock:
            arrived = self._arrived.pop(name, [])
        for task, outcome, cost in arrived:
            if cost is not None:
                session.history.append_note(cost)
            if not isinstance(outcome, NoteRefused):
                session.state_notes.store(task, outcome)
                continue
            if outcome.is_final:
                session.state_notes.pause()
            session.state_notes.refuse(str(outcome))
