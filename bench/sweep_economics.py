"""What the default policy costs at several prices of the cache and in several windows, beside other ways.

    python bench/sweep_economics.py FOLDER [--window N ...] [--sessions N] [--seed N] [--peer NAME ...]

Sessions are drawn at random from one half of the projects (the settings were chosen on half 0). A window that few of
them reach gets longer ones: recordings of one project are joined until they have 1.2 windows. For each price of a token
read from the cache, the table has the cost relative to sending the whole history in every request, charged in the
same way; writing to the cache costs 1.25, an answer 5. `full` is the default policy without the rule on prices: it
sweeps when the window is full. A replay continues as recorded, so it does not show calls that are made again because
something left. Peers need an environment of their own (`make peers`).
"""

import argparse
import random
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from tidegate.core.tokens.counting import CharsPerToken
from tidegate.lab.importers import read_recordings
from tidegate.lab.importers.recording import Recording
from tidegate.lab.importers.registry import find_recording_files
from tidegate.lab.peer_process import close_peer_process, get_peer_process
from tidegate.lab.replay.recording_file import RecordedLine
from tidegate.lab.replay.session_replay import ReplaySetup, replay_session
from tidegate.lab.scoring.contender_request import ContenderRequest
from tidegate.lab.scoring.input_bill import InputBill
from tidegate.lab.scoring.request_size import UnitCounter
from tidegate.models.pricing import TokenRates
from tidegate.presets import load

READ_PRICES = (0.1, 0.05, 0.025)
WINDOWS = (32_000, 200_000, 1_000_000)
PEERS = ("langchain-summary", "langchain-clear", "pydantic-summary")
MIN_WINDOWS = 1.2
NEVER = {"hold": 1_000_000_000}
_RULER = UnitCounter(CharsPerToken(4))

Chat = dict[str, Any]


def make_rates(read: float) -> tuple[TokenRates, ...]:
    return (TokenRates(input=1.0, output=5.0, cached=read, written=1.25),)


class Meter:
    """The bills of one session for several prices. `sizes` counts the requests' tokens."""

    def __init__(self, prices: Iterable[float]) -> None:
        self.bills = {read: InputBill(make_rates(read)) for read in prices}
        self._sent: Sequence[Chat] = ()
        self._sizes: dict[int, tuple[Chat, float]] = {}
        self.largest = 0.0
        self.sweeps = 0

    def _size(self, message: Chat) -> float:
        entry = self._sizes.get(id(message))
        if entry is None or entry[0] is not message:
            entry = self._sizes[id(message)] = (message, _RULER.count_message(message) / _RULER.units_per_token)
        return entry[1]

    def add(self, request: ContenderRequest) -> None:
        if request.error:
            raise SystemExit(f"a request failed: {request.error}")
        shared, place = 0.0, 0
        for old, new in zip(self._sent, request.messages, strict=False):
            if old is not new and old != new:
                break
            shared += self._size(new)
            place += 1
        self.sweeps += place < len(self._sent)
        tokens = shared + sum(map(self._size, request.messages[place:]))
        self.largest = max(self.largest, tokens)
        self._sent = list(request.messages)
        for bill in self.bills.values():
            bill.add_request(request.message_index, tokens, shared)
            for summary in request.summaries:
                bill.add_summary(summary.input_tokens, summary.output_tokens)


class Conversation(NamedTuple):
    name: str
    lines: list[RecordedLine]
    tokens: float

    @property
    def messages(self) -> list[Chat]:
        return [dict(line.message) for line in self.lines]


def read_conversation(name: str, recordings: Sequence[Recording]) -> Conversation:
    """One conversation of these recordings, one after the other. Ids of calls are made unique."""
    messages: list[Chat] = []
    for number, recording in enumerate(recordings):
        for message in recording.messages:
            if messages and message.get("role") in ("system", "developer"):
                continue
            message = dict(message)
            if message.get("tool_calls"):
                message["tool_calls"] = [{**call, "id": f"{number}-{call['id']}"} for call in message["tool_calls"]]
            if message.get("tool_call_id"):
                message["tool_call_id"] = f"{number}-{message['tool_call_id']}"
            messages.append(message)
    tokens = sum(map(_RULER.count_message, messages)) / _RULER.units_per_token
    return Conversation(name, [RecordedLine(number, each) for number, each in enumerate(messages, 1)], tokens)


def find_projects(folder: Path, half: int) -> dict[str, list[Path]]:
    """The recordings of half of the projects: sorted by their number of sessions, they are dealt alternately."""
    projects: dict[str, list[Path]] = {}
    for path in find_recording_files([folder]):
        projects.setdefault(path.name.partition(".")[0].rpartition("-")[0], []).append(path)
    order = sorted(projects, key=lambda name: (-len(projects[name]), name))
    return {name: sorted(projects[name]) for name in order[half::2]}


def choose_conversations(projects: dict[str, list[Path]], window: int, count: int, seed: int) -> list[Conversation]:
    """Conversations of at least 1.2 windows: single recordings where there are enough, else several joined."""
    dice = random.Random(seed)
    single = [(path,) for paths in projects.values() for path in paths]
    dice.shuffle(single)
    series = [tuple(dice.sample(paths, len(paths))) for paths in projects.values()]
    conversations: list[Conversation] = []
    for paths in (*single, *series):
        if len(conversations) == count:
            break
        recordings: list[Recording] = []
        for path in paths:
            recordings += read_recordings(path)
            conversation = read_conversation(path.name.partition(".")[0] + "+" * (len(recordings) - 1), recordings)
            if conversation.tokens >= MIN_WINDOWS * window:
                conversations.append(conversation)
                break
    return conversations


def measure_policy(conversation: Conversation, window: int, read: float, settings: dict[str, Any]) -> Meter:
    meter = Meter(READ_PRICES if settings else (read,))
    setup = ReplaySetup(load("default", settings), window, "chars/4", rates=make_rates(read))
    replay_session(conversation.name, conversation.lines, setup, on_request=meter.add)
    return meter


def measure_peer(name: str, conversation: Conversation, window: int) -> Meter:
    meter = Meter(READ_PRICES)
    get_peer_process(name).play(conversation.messages, window, meter.add, lambda: False)
    return meter


def measure_whole(conversation: Conversation) -> Meter:
    """The whole history in every request."""
    meter, tokens, before = Meter(READ_PRICES), 0.0, 0.0
    for at, message in enumerate(conversation.messages):
        if message.get("role") == "assistant":
            for bill in meter.bills.values():
                bill.add_request(at, tokens, before)
            before = tokens
        tokens += _RULER.count_message(message) / _RULER.units_per_token
    return meter


def measure(conversation: Conversation, window: int, peers: Sequence[str]) -> dict[str, dict[float, float]]:
    """For each way and price the cost relative to the whole history."""
    whole = {read: bill.dollars for read, bill in measure_whole(conversation).bills.items()}
    dollars: dict[str, dict[float, float]] = {"default": {}}
    notes = []
    for read in READ_PRICES:
        meter = measure_policy(conversation, window, read, {})
        dollars["default"][read] = meter.bills[read].dollars
        notes.append(f"{read:g}: {meter.sweeps} edits, largest {meter.largest:,.0f}")
    full = measure_policy(conversation, window, READ_PRICES[0], NEVER)
    notes.append(f"full: {full.sweeps} edits")
    dollars["full"] = {read: bill.dollars for read, bill in full.bills.items()}
    for name in peers:
        dollars[name] = {read: bill.dollars for read, bill in measure_peer(name, conversation, window).bills.items()}
    print(f"{window:,} {conversation.name} {conversation.tokens:,.0f} tokens; {'; '.join(notes)}", file=sys.stderr)
    return {name: {read: cost / whole[read] for read, cost in costs.items()} for name, costs in dollars.items()}


def print_table(window: int, costs: Sequence[dict[str, dict[float, float]]]) -> None:
    for read in READ_PRICES:
        means = [sum(each[name][read] for each in costs) / len(costs) for name in costs[0]]
        print(f"| {window:,} | {read:g} | {' | '.join(f'{mean:.3f}' for mean in means)} |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--window", type=int, action="append")
    parser.add_argument("--sessions", type=int, default=8, help="for each window (default: 8)")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--half", type=int, choices=(0, 1), default=0)
    parser.add_argument("--peer", action="append", help="default: " + ", ".join(PEERS))
    options = parser.parse_args()
    peers = PEERS if options.peer is None else tuple(filter(None, options.peer))
    projects = find_projects(options.folder, options.half)
    columns = ["default", "full", *peers]
    print(f"| window | read | {' | '.join(columns)} |\n|{'---|' * (len(columns) + 2)}")
    for window in options.window or WINDOWS:
        conversations = choose_conversations(projects, window, options.sessions, options.seed)
        if conversations:
            print_table(window, [measure(each, window, peers) for each in conversations])
    close_peer_process()


if __name__ == "__main__":
    main()
