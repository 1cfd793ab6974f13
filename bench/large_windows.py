"""What a call costs with a large window: `python bench/large_windows.py [TOKENS ...]` (default: 200,000 and 1,000,000).

A tool loop grows until the window is full and a sweep follows. For each size: a request that adds one result near the
end of the window, the request with the sweep, and the one after it, each as the gateway does them without its HTTP
(read the bytes, log, plan, write the bytes); and `Session.prepare` of the same conversation. The times are CPU time.
Then what the view has after the sweep, in tokens: the ledger, the notes in the gaps, what was shortened, and what is
whole. Prices are left out (`hold`), so that the sweep comes when the window is full.
"""

import json
import sys
import time
from itertools import count
from typing import NamedTuple

from tidegate import Session, load
from tidegate.core.messages import LEDGER, NOTE
from tidegate.session.following import FollowingSession
from tidegate.session.managed_request import ClientRequestReader, write_request
from tidegate.wire.rendering.blocks import JsonObject
from tidegate.wire.splicing.units import HostUnit

SIZES = (200_000, 1_000_000)
RESULT_LINES = 240
MODEL = "claude-sonnet-4-5"


class Figures(NamedTuple):
    growing: float
    sweeping: float
    after: float
    prepare: float
    tokens_before: int
    tokens_after: int
    parts: tuple[int, ...]


def make_step(number: int) -> list[JsonObject]:
    call = {"type": "tool_use", "id": f"c{number}", "name": "run", "input": {"command": f"make step-{number}"}}
    lines = "\n".join(
        f"step {number}: src/part_{line % 37}.py:{line} checked {number * line}" for line in range(RESULT_LINES)
    )
    result = {"type": "tool_result", "tool_use_id": f"c{number}", "content": lines}
    return [{"role": "assistant", "content": [call]}, {"role": "user", "content": [result]}]


def count_parts(session: Session) -> tuple[int, ...]:
    """The tokens of the ledger, of notes, of shortened messages and of whole ones."""
    sizes = [0, 0, 0, 0]
    for item in session.view.items:
        kind = item.message.kind
        sizes[0 if kind == LEDGER else 1 if kind == NOTE else 2 if item.edited else 3] += item.tokens
    return tuple(sizes)


def measure(window: int) -> Figures:
    tools = [{"name": "run", "input_schema": {"type": "object"}}]
    messages: list[JsonObject] = [{"role": "user", "content": "Make all steps, one after the other."}]
    reader, times = ClientRequestReader(), list[float]()
    before = 0
    policy = load("default", {"hold": 1_000_000_000})
    with Session(MODEL, policy=policy, window=window, wire="anthropic") as session:
        following = FollowingSession[HostUnit](session)
        after_sweep = False
        for number in count():
            messages += make_step(number)
            body = {"model": MODEL, "max_tokens": 1_000, "messages": messages, "tools": tools}
            text = json.dumps(body).encode()
            started = time.process_time()
            client = reader.read("anthropic", text, "", "bench")
            assert client is not None
            followed = following.prepare(client.items, fixed_part=client.fixed_part)
            write_request(client, followed)
            times.append(time.process_time() - started)
            if after_sweep:
                break
            after_sweep = session.view.first_edit_seq > 0
            before = before if after_sweep else session.tokens
        left, parts = session.tokens, count_parts(session)
        started = time.process_time()
        session.prepare()
        prepared = time.process_time() - started
    return Figures(times[-3], times[-2], times[-1], prepared, before, left, parts)


def main() -> None:
    windows = [int(each.replace(",", "")) for each in sys.argv[1:]] or SIZES
    times, parts = "one more result | with the sweep | the one after | prepare", "ledger | notes | shortened | whole"
    print(f"| window | {times} | tokens before | after | {parts} |")
    print(f"|{'---|' * 11}")
    for window in windows:
        figures = measure(window)
        parts = " | ".join(f"{tokens:,}" for tokens in figures.parts)
        times = " | ".join(f"{seconds * 1000:,.0f} ms" for seconds in figures[:4])
        print(f"| {window:,} | {times} | {figures.tokens_before:,} | {figures.tokens_after:,} | {parts} |")


if __name__ == "__main__":
    main()
