"""Measure recall by words: what it finds, and how long it takes.

    python bench/recall.py agents FOLDER [--half 0] [--sessions 40] [--each 6]
    python bench/recall.py speed [--events 20000] [--stored]
    python bench/recall.py conversation LOCOMO_PY --out RANKED

agents        recorded sessions. Each query is written from a need that `lab/scoring/text_needs.py` found more than
              10,000 tokens after its text was last seen, with what the agent knew at that point: the path or the
              command of a re-read; the file and the names in the first lines of a block that it edits; the longest
              words of a line; a name and its own sentence before it. Found is a message that holds the needed text.
              Sessions are dealt alternately into halves.
speed         a generated session beside SQLite FTS5 alone, over the same texts. With --stored it is in a data folder:
              answers from SQLite, the size of the saved index, the first answer of the next process, and the time to
              open the part of the log that belongs to a conversation.
conversation  a program that prints conversations (`turns`) and questions (`questions`) as JSON lines and scores RANKED.
"""

from __future__ import annotations

import argparse
import json
import re
import sqlite3
import subprocess
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from math import log
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

from tidegate import DataFolder, MemoryLog, Session
from tidegate.core.events import MessageAdded
from tidegate.core.tokens.estimate import TokenEstimator
from tidegate.lab.replay import recording_file
from tidegate.lab.scoring.identifiers import chat_text_of, iterate_chat_calls, searchable_text_of
from tidegate.lab.scoring.request_size import UnitCounter
from tidegate.lab.scoring.signals import extract_signals
from tidegate.lab.scoring.text_needs import TextNeed, clean_lines, flatten_spaces, join_lines
from tidegate.memory.log_lines import extract_message_text
from tidegate.proof.session_generator import generate_session
from tidegate.session.conversation_log import ConversationLog
from tidegate.session.recall import recall_text
from tidegate.session.recall_index import RecallIndex

FAR_TOKENS = 10_000
MAX_SESSION_TOKENS = 120_000
LIMITS = (5, 10, 20)
PAGE_CHARS = 60_000
_NAME = re.compile(r"[A-Za-z_][\w.]{3,}")
_WORD = re.compile(r"\w+")


class Query(NamedTuple):
    """`at` is the message that needed the text; `holders` are the earlier messages that have it, from 0."""

    kind: str
    text: str
    at: int
    holders: frozenset[int]


class FoundIds(NamedTuple):
    query: Query
    ours: list[int]
    plain: list[int]


# --- the needs of agents ----------------------------------------------------------------------------------------------


def words_of_call(message: dict[str, Any]) -> str:
    """What a call is about: its path if it has one, else its command or arguments."""
    for call in iterate_chat_calls(message):
        try:
            arguments = json.loads(call["arguments"])
        except ValueError:
            continue
        if isinstance(arguments, dict):
            path = next(
                (arguments[key] for key in ("file_path", "path", "filePath", "filename") if arguments.get(key)), None
            )
            command = arguments.get("command") or arguments.get("cmd")
            some = path or (" ".join(map(str, command)) if isinstance(command, list) else command)
            if isinstance(some, str):
                return some[:200]
    return ""


def write_query(need: TextNeed, message: dict[str, Any]) -> str:
    about = words_of_call(message)
    if need.kind == "reread":
        return about
    if need.kind == "block":
        names = dict.fromkeys(_NAME.findall("\n".join(need.texts[0].strip().splitlines()[:2])))
        return " ".join([about.rpartition("/")[2][:80], *list(names)[:3]])
    if need.kind == "line":
        return " ".join(sorted(set(_NAME.findall(need.texts[0])), key=len, reverse=True)[:4])
    sentence = flatten_spaces(chat_text_of(message)).strip()[:120]
    return f"{need.texts[0]} {sentence}".strip()


def list_queries(messages: Sequence[dict[str, Any]], each: int) -> Iterator[Query]:
    signals = extract_signals(messages, UnitCounter(TokenEstimator()))
    pages = [searchable_text_of(message) for message in messages]
    lines = [join_lines(clean_lines(page)) for page in pages]
    by_kind: dict[str, list[TextNeed]] = defaultdict(list)
    for need in signals.text_needs:
        if need.tokens_back > FAR_TOKENS:
            by_kind[need.kind].append(need)
    for kind, needs in by_kind.items():
        for need in needs[:: max(1, len(needs) // each)][:each]:
            query = write_query(need, messages[need.message_index])
            before = range(need.message_index)
            if kind == "reread":
                holders = [
                    at for at in before if sum(f"\n{line}\n" in lines[at] for line in need.texts) * 2 >= len(need.texts)
                ]
            elif kind == "reference":
                holders = [at for at in before if any(context in pages[at] for context in need.texts[1:])]
            else:
                text = need.texts[0] if kind == "block" else f"\n{need.texts[0]}\n"
                holders = [at for at in before if text in lines[at]]
            if query.strip() and holders:
                yield Query(kind, query, need.message_index, frozenset(holders))


def rank_plainly(pages: Sequence[Counter[str]], query: str) -> list[int]:
    """BM25 over whole messages, words in lower case."""
    lengths = [page.total() for page in pages]
    average = sum(lengths) / max(1, len(lengths))
    scores: dict[int, float] = defaultdict(float)
    for word in set(_WORD.findall(query.lower())):
        having = [at for at, page in enumerate(pages) if word in page]
        weight = log(1 + (len(pages) - len(having) + 0.5) / (len(having) + 0.5))
        for at in having:
            count = pages[at][word]
            scores[at] += weight * count * 2.2 / (count + 1.2 * (0.25 + 0.75 * lengths[at] / average))
    return sorted(scores, key=lambda at: (-scores[at], -at))


def search_session(messages: Sequence[dict[str, Any]], each: int) -> Iterator[FoundIds]:
    session = Session(count="estimate", log=MemoryLog(), clock=lambda: 1.0)
    ids: list[str] = []
    for message in messages:
        ids += session.add({**message, "role": "user"} if message["role"] in ("system", "developer") else message)
    places = {ident: at for at, ident in enumerate(ids)}
    counts = [Counter(_WORD.findall(searchable_text_of(message).lower())) for message in messages]
    index = RecallIndex(session.log)
    for query in list_queries(messages, each):
        before = ConversationLog(session.log, ids[query.at - 1])
        hits = recall_text(before, query.text, max_chars=PAGE_CHARS, index=index).ids
        yield FoundIds(query, [places[ident] for ident in hits], rank_plainly(counts[: query.at], query.text))


def measure_agents(options: argparse.Namespace) -> None:
    paths = recording_file.find_chat_recordings([options.folder])
    half = paths if options.half is None else paths[options.half :: 2]
    rows: list[FoundIds] = []
    sessions = 0
    for path in half:
        messages: list[dict[str, Any]] = [dict(line.message) for line in recording_file.read_chat_recording(path)]
        chars = sum(len(searchable_text_of(message)) for message in messages)
        if not 4 * FAR_TOKENS < chars < 4 * MAX_SESSION_TOKENS:
            continue
        rows += search_session(messages, options.each)
        sessions += 1
        if sessions >= options.sessions:
            break
    print(f"{sessions} sessions, {len(rows)} queries")
    print(f"{'':<12}{'queries':>8}" + "".join(f"{f'recall@{limit}':>12}{'plain':>8}" for limit in LIMITS))
    for kind in (*sorted({row.query.kind for row in rows}), ""):
        some = [row for row in rows if kind in ("", row.query.kind)]
        line = f"{kind or 'all':<12}{len(some):>8}"
        for limit in LIMITS:
            for ranks in ([row.ours for row in some], [row.plain for row in some]):
                hits = [not row.query.holders.isdisjoint(ids[:limit]) for row, ids in zip(some, ranks, strict=True)]
                line += f"{100 * sum(hits) / max(1, len(hits)):>{12 if ranks[0] is some[0].ours else 8}.1f}"
        print(line)
    print(f"queries without a hit: {sum(not row.ours for row in rows)}")


# --- speed ------------------------------------------------------------------------------------------------------------

QUESTIONS = (
    "where is the port configured",
    "why did the test of the parser fail",
    "error timeout connection",
    "src/core/view.py",
    "rename get_user to fetchUser",
    '"assert result"',
)


def fill_session(session: Session, events: int) -> list[str]:
    """Add generated messages up to so many events. Return the texts that are searched."""
    turns = 0
    while session.log.head < events:
        turns += 50
        session.add(*(each for each in generate_session(50, seed=turns) if each["role"] != "system"))
    payloads = (event.payload for event in session.log.read())
    return [extract_message_text(what.message) for what in payloads if isinstance(what, MessageAdded)]


def measure_speed(options: argparse.Namespace) -> None:
    session = Session(count="estimate", log=MemoryLog(), clock=lambda: 1.0)
    texts = fill_session(session, options.events)
    began = time.process_time()
    session.history.search("port")
    seconds = time.process_time() - began
    ours = time_queries(session.history.search)
    ranking = time_queries(lambda query: session.history.recall_index.find(session.log, query))
    began = time.process_time()
    database = sqlite3.connect(":memory:")
    database.execute("CREATE VIRTUAL TABLE words USING fts5 (text, content='', tokenize='porter')")
    database.executemany("INSERT INTO words (rowid, text) VALUES (?, ?)", enumerate(texts, 1))
    fts_built = time.process_time() - began
    fts = time_queries(lambda query: ask_fts(database, query))
    chars = sum(map(len, texts))
    print(f"{session.log.head:,} events, {chars / 1e6:.1f} million characters; CPU time, ratios to SQLite FTS5 alone")
    print(f"index built: {seconds:.2f} s, {seconds / fts_built:.1f} times FTS5 ({fts_built:.2f} s)")
    answers = {"FTS5": fts, "ranking": ranking, "whole answer": ours}
    if options.stored:
        with TemporaryDirectory() as folder:
            answers |= measure_stored(Path(folder), options.events, fts_built)
    for name, times in answers.items():
        middle, worst = sorted(times)[len(times) // 2], max(times)
        ratio = middle / sorted(fts)[len(fts) // 2]
        print(f"{name}: median {1e3 * middle:.1f} ms, slowest {1e3 * worst:.1f} ms; {ratio:.1f} times FTS5")


def measure_stored(folder: Path, events: int, fts_built: float) -> dict[str, list[float]]:
    with DataFolder(folder) as data:
        with data.open("s", count="estimate", window=100_000) as session:
            chars = sum(map(len, fill_session(session, events)))
        began = time.process_time()
        data.recall_index("s").find(data.open_log("s"), "port")
        seconds = time.process_time() - began
        print(f"index built from SQLite, with secrets masked: {seconds:.2f} s, {seconds / fts_built:.1f} times FTS5")
        size = sum(path.stat().st_size for path in (folder / "recall").iterdir())
        print(f"saved index: {size:,} bytes, {size / chars:.2f} for each character")
    with DataFolder(folder) as data:
        log, index = data.open_log("s"), data.recall_index("s")
        began = time.process_time()
        recall_text(log, "port", index=index)
        print(f"first answer of the next process: {time.process_time() - began:.2f} s")
        times = []
        for _ in range(3):
            began = time.process_time()
            ConversationLog(log, None, index.read_branch_points())
            times.append(1e3 * (time.process_time() - began))
        print(f"part of the log of a conversation: {times[0]:.1f} ms, then {times[-1]:.2f} ms")
        return {"whole answer from SQLite": time_queries(lambda query: recall_text(log, query, index=index))}


def time_queries(ask: Any) -> list[float]:
    times = []
    for query in QUESTIONS:
        began = time.process_time()
        ask(query)
        times.append(time.process_time() - began)
    return times


def ask_fts(database: sqlite3.Connection, query: str) -> None:
    match = " OR ".join(f'"{word}"' for word in _WORD.findall(query))
    sql = "SELECT rowid FROM words WHERE words MATCH ? ORDER BY bm25(words) LIMIT 100"
    database.execute(sql, (match,)).fetchall()


# --- conversations ----------------------------------------------------------------------------------------------------


def read_lines(program: Path, what: str) -> list[dict[str, Any]]:
    process = subprocess.run([sys.executable, str(program), what], capture_output=True, text=True, check=True)
    return [json.loads(line) for line in process.stdout.splitlines()]


def measure_conversation(options: argparse.Namespace) -> None:
    sessions: dict[str, tuple[Session, dict[str, str]]] = {}
    for row in read_lines(options.program, "turns"):
        session = Session(count="estimate", log=MemoryLog(), clock=lambda: 1.0)
        first = row["turns"][0][1]
        roles = ["user" if speaker == first else "assistant" for _, speaker, _ in row["turns"]]
        texts = [f"{speaker}: {text}" for _, speaker, text in row["turns"]]
        message_ids = session.add(*({"role": role, "content": text} for role, text in zip(roles, texts, strict=True)))
        sessions[row["name"]] = session, dict(zip(message_ids, (turn[0] for turn in row["turns"]), strict=True))
    with options.out.open("w") as file:
        for question in read_lines(options.program, "questions"):
            session, names = sessions[question["name"]]
            hits = session.history.search(question["question"], max_chars=PAGE_CHARS)
            file.write(json.dumps({"id": question["id"], "found": [names[ident] for ident in hits.ids]}) + "\n")
    subprocess.run([sys.executable, str(options.program), "score", str(options.out)], check=True)


def parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(required=True)
    agents = commands.add_parser("agents")
    agents.add_argument("folder", type=Path)
    agents.add_argument("--half", type=int, choices=(0, 1))
    agents.add_argument("--sessions", type=int, default=40)
    agents.add_argument("--each", type=int, default=6, help="queries of each kind in a session")
    agents.set_defaults(run=measure_agents)
    speed = commands.add_parser("speed")
    speed.add_argument("--events", type=int, default=20_000)
    speed.add_argument("--stored", action="store_true")
    speed.set_defaults(run=measure_speed)
    conversation = commands.add_parser("conversation")
    conversation.add_argument("program", type=Path)
    conversation.add_argument("--out", type=Path, required=True)
    conversation.set_defaults(run=measure_conversation)
    return parser.parse_args()


def main() -> int:
    options = parse_options()
    options.run(options)
    return 0


if __name__ == "__main__":
    sys.exit(main())
