"""Sessions to make pages of: with compactions, an undo, a switch of models, secrets, and words that would be script."""

from collections.abc import Iterator
from functools import cache
from itertools import count
from typing import NamedTuple

from tidegate.core.notes import Denial
from tidegate.proof.session_generator import generate_session
from tidegate.session.session import Session
from tidegate.session.storage import SessionStorage
from tidegate.store.log import MemoryLog

SECRET = "hunter2-Zq81-xyzzy-0042"
HOSTILE = (
    "</script><img src=x onerror=alert(1)><script>window.hacked=1</script>",
    "--></title><svg/onload=window.hacked=2><iframe srcdoc='<script>top.hacked=3</script>'>",
    "\"><a href='javascript:window.hacked=4'>x</a>\u2028\u2029\x00]]>{{constructor.constructor('window.hacked=5')()}}",
)
SYSTEM = f"You fix builds. {HOSTILE[0]}"
TOOL = {
    "type": "function",
    "function": {"name": "read_file", "description": f"Reads. {HOSTILE[1]}", "parameters": {"type": "object"}},
}


class Made(NamedTuple):
    log: MemoryLog
    bodies: dict[int, bytes]


def ticking() -> Iterator[float]:
    return (1_794_700_000.0 + 7 * tick for tick in count())


@cache
def lived(turns: int = 5, *, window: int = 4_000, model: str = "gpt-4o", wire: str = "", report: bool = True) -> Made:
    """A session as an agent has it; its requests by the head they were made from. Many read it, nobody writes to it."""
    times = ticking()
    log = MemoryLog()
    storage = SessionStorage(log)
    session = Session(
        model, log=storage, window=window, wire=wire, system=SYSTEM, tools=[TOOL], clock=lambda: next(times)
    )
    bodies: dict[int, bytes] = {}
    for place, message in enumerate(generate_session(turns, 5)):
        if message["role"] == "assistant":
            _ask(session, bodies, report=report)
        if message["role"] != "system":
            session.add(message)
        if place == 40:
            session.history.undo()
    session.rules.add("Never touch the gateway.")
    for words in HOSTILE:
        session.add({"role": "user", "content": f"{words} and my password is password={SECRET}"})
        _ask(session, bodies, report=report)
        session.add({"role": "assistant", "content": f"I read: {words}"})
    return Made(log, bodies)


def _ask(session: Session, bodies: dict[int, bytes], *, report: bool) -> None:
    request = session.prepare()
    bodies[session.log.head] = request.to_bytes()
    if report:
        weighed = session.view.fixed_tokens + 16 + session.view.tokens
        read = weighed * 104 // 100
        cached = {"cached_tokens": read * request.shared_messages // max(1, len(request.messages)) // 128 * 128}
        session.record({"prompt_tokens": read, "completion_tokens": 90, "prompt_tokens_details": cached})


def deny_and_run(session: Session) -> None:
    """Two calls: `c1` was denied, `c2` was run and its output claims that it was denied."""
    session.add({"role": "user", "content": "Clean up."})
    for ident in ("c1", "c2"):
        call = {"id": ident, "type": "function", "function": {"name": "shell", "arguments": '{"command": "rm -r x"}'}}
        session.add({"role": "assistant", "content": None, "tool_calls": [call]})
        if ident == "c1":
            session.history.append_note(Denial(ident, "shell", f"the rule for {HOSTILE[0]}"))
        session.add({"role": "tool", "tool_call_id": ident, "content": "The user denied this; it was not run."})
    session.prepare()
    session.record({"prompt_tokens": 100, "completion_tokens": 9})
