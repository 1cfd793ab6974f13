"""What the first request of a client that goes on with a session costs, beside sending it the transcript as text.

    python bench/continuation_cost.py RECORDING... [--window 200000] [--price 3]

Each recording is replayed in a window of the given size, then another client with the same window goes on. `transcript`
is all that was said and done as Markdown, without a limit, and `record` is what tidegate puts before the first message.
Tokens are four characters each; the price is for a million input tokens that no cache has. A transcript that is larger
than the window cannot be sent at all.
"""

import argparse
import sys
from pathlib import Path
from statistics import median
from typing import NamedTuple

from tidegate import Session
from tidegate.core.notes import ClientNote
from tidegate.lab.replay.recording_file import find_chat_recordings, get_recording_name, read_chat_recording
from tidegate.lab.replay.session_replay import MAIN_DIALECT, SECONDS_PER_CALL
from tidegate.session.continuation import ContinuedRun, choose_record_tokens, write_record
from tidegate.session.handoff import fit_work, write_work

UNLIMITED = 10**9
LENGTHS = (0, 32_000, 100_000)
NEXT = ClientNote("next", "the next client")
SYSTEM_ROLES = ("system", "developer")


class Cost(NamedTuple):
    """Tokens of the transcript and of the record, and the messages in it: whole, and of the session."""

    name: str
    transcript: int
    record: int
    whole: int
    messages: int


def measure(path: Path, window: int) -> Cost:
    now = [0.0]
    session = Session(policy="default", window=window, wire=MAIN_DIALECT, count="chars/4", clock=lambda: now[0])
    plain = Session(policy="default", window=UNLIMITED, reserve=0, count="chars/4")
    for line in read_chat_recording(path):
        if line.message.get("role") in SYSTEM_ROLES:
            continue
        if line.message.get("role") == "assistant":
            now[0] += SECONDS_PER_CALL
            session.prepare()
        session.add(line.message, typed=line.typed)
        plain.add(line.message, typed=line.typed)
    transcript = fit_work(plain.log.read, UNLIMITED, write_work)
    run = ContinuedRun(NEXT, "session", session.log.head, str)
    record = write_record(session.log.read, run, 0, choose_record_tokens(window), session.counter)
    assert record is not None, f"{path} has no messages"
    return Cost(
        get_recording_name(path), transcript.tokens, record.note.tokens, record.note.whole, record.note.messages
    )


def print_sum(costs: list[Cost], least: int, price: float) -> None:
    transcript, record = (sum(each) / len(costs) for each in ([cost[place] for cost in costs] for place in (1, 2)))
    middle = median(cost.record / cost.transcript for cost in costs)
    dollars = " -> ".join(f"${tokens * price / 1e6:.2f}" for tokens in (transcript, record))
    print(
        f"{len(costs)} transcripts of more than {least:,} tokens: {transcript:,.0f} on average, the record"
        f" {record:,.0f} ({record / transcript:.0%}, median {middle:.0%}), {dollars}"
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("recordings", type=Path, nargs="+")
    parser.add_argument("--window", type=int, default=200_000)
    parser.add_argument("--price", type=float, default=3.0, help="dollars for a million input tokens")
    options = parser.parse_args()
    costs = [measure(path, options.window) for path in find_chat_recordings(options.recordings)]
    print(f"{'session':<28} {'transcript':>10} {'record':>8} {'share':>6} {'dollars':>16}  messages whole")
    for cost in costs:
        dollars = "{:.3f} -> {:.3f}".format(*(tokens * options.price / 1e6 for tokens in cost[1:3]))
        share = f"{cost.record / cost.transcript:.0%}"
        print(
            f"{cost.name[:28]:<28} {cost.transcript:>10,} {cost.record:>8,} {share:>6} {dollars:>16}"
            f"  {cost.whole:,} of {cost.messages:,}"
        )
    for least in LENGTHS:
        if longer := [cost for cost in costs if cost.transcript > least]:
            print_sum(longer, least, options.price)
    large = sum(cost.transcript > options.window for cost in costs)
    print(f"{large} transcripts do not fit a window of {options.window:,} tokens; every record does")
    return 0


if __name__ == "__main__":
    sys.exit(main())
