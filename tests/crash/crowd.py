"""Many processes in one session, each adding turns and compacting with a slow summarizer; two of them are killed.

    python -m tests.crash.crowd URL WRITERS TURNS SECONDS

They begin each turn together, however fast each of them is, and add further turns until several of them have compacted.
It prints what each was told and saw, as one JSON object.
"""

import multiprocessing
import os
import subprocess
import sys
import time
from collections.abc import Callable
from itertools import count
from multiprocessing.connection import Connection, wait
from multiprocessing.context import ForkProcess as Process
from pathlib import Path

import msgspec

import tidegate
from tests.crash.judge import would_send
from tests.crash.worlds import NAME, turn
from tidegate.core.outcome import SummaryRequest
from tidegate.core.policy.parser import parse_policy
from tidegate.core.stages import STAGES
from tidegate.session.session import Session
from tidegate.store.open import open_store
from tidegate.store.session_log import KeptLog

WINDOW = 4_000
VICTIMS = {2: 3, 5: 6}
"""These writers are killed when they have been told of so many messages."""
COMPACTING, SUMMARIES = 3, 2
"""So many writers must have compacted, and so many summaries must be there, before the writers stop."""
MAX_TURNS = 100
ROOT = Path(__file__).parents[2]
SOURCE = Path(tidegate.__file__).parents[1]


POLICY = """
name: crowd
reserve: 4096
settings: {ledger: 0.08}
moments:
  before_call:
    - {stage: clear_results, when: {pressure: "> 0.85"}, keep: 6, least: 60, floor: 500}
    - {stage: summarize, when: {pressure: "> 0.92"}, keep_share: 0.5, max_tokens: 2000}
"""
"""One that asks for summaries."""


class Ack(msgspec.Struct, frozen=True):
    """`add` gave this id for the message that begins with this word."""

    ident: str
    word: str


class Look(msgspec.Struct, frozen=True):
    """What a process has before it when it has caught up."""

    head: int
    request: str
    tokens: int


class Writer(msgspec.Struct):
    """`looks` is empty for one that was killed."""

    acks: list[Ack] = []
    looks: list[Look] = []
    edits: int = 0


class Turn(msgspec.Struct, frozen=True):
    """A writer has added a turn. So many edits are its own by now."""

    edits: int
    summaries: int


class Crowd(msgspec.Struct):
    """`turns`: how many turns each writer has added that was not killed."""

    writers: list[Writer]
    turns: int


def run_crowd(url: str, writers: int, turns: int, seconds: float) -> Crowd:
    """Run it in processes of its own, which nothing of this one gets into."""
    command = [sys.executable, "-m", "tests.crash.crowd", url, str(writers), str(turns), str(seconds)]
    environment = {**os.environ, "PYTHONPATH": f"{SOURCE}{os.pathsep}{ROOT}"}
    done = subprocess.run(command, stdout=subprocess.PIPE, env=environment, cwd=ROOT, check=True)
    return msgspec.json.decode(done.stdout, type=Crowd)


def write(url: str, number: int, seconds: float, pipe: Connection) -> None:
    store = open_store(url)
    policy = parse_policy(POLICY, source="crowd", stages=STAGES)
    log = KeptLog(store, NAME)
    session = Session("gpt-4o", policy=policy, window=WINDOW, wire="openai_chat", count="estimate", log=log)
    told = Writer()

    def slow(request: SummaryRequest) -> str:
        time.sleep(seconds)
        return f"Writer {number} summed up {len(request.messages)} messages."

    pipe.send("ready")
    for place in count():
        if pipe.recv() == "stop":
            break
        for message in turn(number * 1000 + place, result=800):
            (ident,) = session.add(message)
            pipe.send(Ack(ident, str(message["content"]).split()[0]))
            session.prepare(slow)
        pipe.send(Turn(session.edit_counts.total(), session.edit_counts["summarize"]))
    told.edits = sum(session.edit_counts.values())
    _show(session, told, pipe)
    store.close()


def _show(session: Session, told: Writer, pipe: Connection) -> None:
    """When all have written: catch up and look, prepare in turn, look again."""
    asked: dict[str, Callable[[], object]] = {"look": session.history.refresh, "prepare": session.prepare}
    pipe.send("written")
    while (word := pipe.recv()) != "end":
        asked[word]()
        told.looks.append(Look(session.log.head, would_send(session).hex(), session.tokens))
        pipe.send(word)
    pipe.send(msgspec.json.encode(told))


def main(url: str, writers: int, turns: int, seconds: float) -> Crowd:
    context = multiprocessing.get_context("fork")
    pipes, processes = list[Connection](), list[Process]()
    for number in range(writers):
        ours, theirs = context.Pipe()
        process = context.Process(target=write, args=(url, number, seconds, theirs), daemon=True)
        process.start()
        theirs.close()  # before the next is forked: the end of a pipe tells of the end of its process
        pipes.append(ours)
        processes.append(process)
    for pipe in pipes:
        assert pipe.recv() == "ready"
    acks, rounds = _gather(pipes, processes, turns)
    told = [Writer(each) for each in acks]
    living = [number for number in range(writers) if number not in VICTIMS]
    for word in ("look", "prepare", "look"):
        for number in living:
            pipes[number].send(word)
            assert pipes[number].recv() == word
    for number in living:
        pipes[number].send("end")
        seen = msgspec.json.decode(pipes[number].recv(), type=Writer)
        told[number].looks, told[number].edits = seen.looks, seen.edits
    for process in processes:
        process.join()
    return Crowd(told, rounds)


def _gather(pipes: list[Connection], processes: list[Process], turns: int) -> tuple[list[list[Ack]], int]:
    """What each was told, until all have written enough, and how many turns that were. The victims are killed in the
    midst of it."""
    acks: list[list[Ack]] = [[] for _ in pipes]
    living = dict(enumerate(pipes))
    done: dict[int, Turn] = {}
    rounds = 0
    while rounds < turns or not _is_enough(done):
        assert rounds < MAX_TURNS, f"hardly anybody compacts: {done}"
        rounds += 1
        for pipe in living.values():
            pipe.send("go")
        done = _run_turn(living, processes, acks)
    for number, pipe in living.items():
        pipe.send("stop")
        assert pipe.recv() == "written", f"writer {number}"
    return acks, rounds


def _is_enough(done: dict[int, Turn]) -> bool:
    compacting = sum(turn.edits > 0 for turn in done.values())
    return compacting >= COMPACTING and sum(turn.summaries for turn in done.values()) >= SUMMARIES


def _run_turn(living: dict[int, Connection], processes: list[Process], acks: list[list[Ack]]) -> dict[int, Turn]:
    """Until each of the living has added its turn. One that is killed is removed from them."""
    done: dict[int, Turn] = {}
    dying: set[int] = set()
    while dying or living.keys() - done.keys():
        numbers = {pipe: number for number, pipe in living.items()}
        for pipe in wait(list(numbers)):
            assert isinstance(pipe, Connection)
            number = numbers[pipe]
            try:
                word = pipe.recv()
            except EOFError:
                assert number in dying, f"writer {number} is dead"
                del living[number]
                dying.remove(number)
                continue
            if isinstance(word, Turn):
                done[number] = word
                continue
            assert isinstance(word, Ack), f"writer {number}: {word}"
            acks[number].append(word)
            if len(acks[number]) == VICTIMS.get(number):
                processes[number].kill()
                dying.add(number)
    return {number: turn for number, turn in done.items() if number in living}


if __name__ == "__main__":
    place, crowd, each, pause = sys.argv[1:]
    sys.stdout.buffer.write(msgspec.json.encode(main(place, int(crowd), int(each), float(pause))))
