"""Sessions that are traced while they go on, and what their traces hold."""

import resource
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from tidegate import KeptLog, MemoryLog, Session
from tidegate.datafolder.trace.writer import Trace, read_trace


def ticking() -> Callable[[], float]:
    now = iter(range(1_000_000, 9_000_000))
    return lambda: next(now) + 0.125


def session_on(log: KeptLog | MemoryLog) -> Session:
    return Session("gpt-4o", window=4_000, count="chars/4", system="Be brief.", log=log, clock=ticking())


def turn(session: Session, number: int) -> None:
    """A request, a call, a batch of two, an answer, and what it cost."""
    session.add({"role": "user", "content": f"Question {number}: " + "what is it? " * 40})
    session.prepare()
    for ids in ([f"a{number}"], [f"b{number}", f"c{number}"]):
        calls = [{"id": each, "type": "function", "function": {"name": "read", "arguments": "{}"}} for each in ids]
        session.add({"role": "assistant", "content": None, "tool_calls": calls})
        session.add(*({"role": "tool", "tool_call_id": each, "content": "line " * 100} for each in ids))
        session.prepare()
    session.add({"role": "assistant", "content": "An answer. " * 20})
    session.record({"prompt_tokens": 1_000 + number, "completion_tokens": 50})


def seqs(path: Path) -> list[int]:
    """As they stand in the file, each event's lines counted once."""
    return [line.seq for line in read_trace(path) if not line.more]


def traced(path: Path, turns: int = 6, *, patience: float = 300.0) -> Session:
    session = session_on(MemoryLog())
    trace = Trace(path, "s", patience=patience)
    trace.append_missing(session.log)
    session.history.observe(trace)
    for number in range(turns):
        turn(session, number)
    assert trace.last_error == ""
    return session


def made_again(log: MemoryLog | KeptLog, beside: Path) -> bytes:
    other = beside.with_name("again.jsonl")
    other.unlink(missing_ok=True)
    trace = Trace(other, "s")
    trace.append_missing(log)
    return other.read_bytes()


@contextmanager
def full_disk(size: int) -> Iterator[None]:
    """No file may grow beyond this size, as on a disk without room: writes are cut short, then fail."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
