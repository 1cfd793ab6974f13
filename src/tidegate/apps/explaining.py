"""`tidegate replay --explain`: every transaction of a recorded session with its arithmetic.

The session is lived through once more as `lab.replay` does, with the same clock and without a model, so what is told is
what the table counts.
"""

from collections.abc import Iterator
from itertools import chain, takewhile
from pathlib import Path

from tidegate.core.errors import BadInput, TooSmall
from tidegate.lab import traces
from tidegate.lab.batch import Order, policy_of
from tidegate.lab.replay import MAIN, SECONDS_PER_CALL
from tidegate.lab.traces import Line
from tidegate.session.explain import told_of
from tidegate.session.recalls import recalls_of
from tidegate.session.session import Session

_FIXED = ("system", "developer")


def explained(path: Path, order: Order) -> Iterator[str]:
    """The lines of one recording. What cannot be read was said already, where it was replayed."""
    yield f"\n{traces.stem_of(path)}"
    try:
        session = _lived(path, order)
    except (BadInput, TooSmall) as bad:
        yield f"  {bad.args[0]}"
        return
    yield from (f"  {line}" for line in told_of(session))
    yield f"  {recalls_of(session.log)}"


def _lived(path: Path, order: Order) -> Session:
    lines = iter(list(traces.read(path)))
    rest: list[Line] = []

    def fixed(line: Line) -> bool:
        if line.message.get("role") in _FIXED:
            return True
        rest.append(line)
        return False

    system = "\n\n".join(text for line in takewhile(fixed, lines) if (text := _text(line)))
    time = 0.0
    session = Session(
        policy=policy_of(order.policy, order.settings),
        window=order.window,
        wire=MAIN,
        system=system,
        count=order.count,
        clock=lambda: time,
    )
    for line in chain(rest, lines):
        if line.message.get("role") == "assistant":
            time += SECONDS_PER_CALL
            session.prepare()
        session.add(line.message)
    return session


def _text(line: Line) -> str:
    content = line.message.get("content")
    if isinstance(content, list):
        return "\n\n".join(str(part.get("text", "")) for part in content if isinstance(part, dict))
    return content if isinstance(content, str) else ""
