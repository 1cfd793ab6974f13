"""What every peer's script shares: a recording is read and played, the peer decides, the requests are written.

    python SCRIPT RECORDING... --window N --out FILE [--settings JSON] [--no-guard]

Only the standard library, and nothing of tidegate: this file is run by each peer's own interpreter and found beside the
script. With several recordings (starting some interpreters takes seconds) `--out` is a folder and gets a file for each.

Each assistant message of a recording gives one line, `{"at": its index, "messages": [...]}`: what would have been sent
just before it. A peer that gives up gives `{"at": ..., "error": "..."}`. Beside these a line says what the guard found
(`faults`; `guarded` if it acted) and what was spent on summaries (`summaries`).
"""

# mypy: disable-error-code="import-not-found"

import argparse
import gzip
import io
import json
import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple, Protocol, TextIO

from chat_form import Chat, lead, tokens
from guarding import FILLER, faults, guard


class Refused(Exception):
    """The peer will not send this request; `view` is what it had in hand, so that the guard can take over."""

    def __init__(self, reason: str, view: Sequence[Chat]) -> None:
        super().__init__(reason)
        self.view = list(view)


class PeerSession(Protocol):
    """One recording under one peer."""

    def hear(self, index: int, message: Chat) -> None:
        """The next message of the recording."""

    def decide(self) -> list[Chat]:
        """What would be sent now. What the peer leaves alone is the recorded dict itself."""

    def spent(self) -> list[dict[str, int]]:
        """The summaries written since last asked, each with the tokens `read` and `written`."""

    def close(self) -> None: ...


PeerFactory = Callable[[int, dict[str, Any]], PeerSession]
"""Window and settings to a peer."""


class BadRecording(Exception):
    """What is wrong with a file, and where."""


def _read_recording(path: Path) -> list[Chat]:
    """The messages of a recording, plain or gzipped, without its line of meta data."""
    try:
        raw = path.read_bytes()
        text = (gzip.decompress(raw) if raw[:2] == b"\x1f\x8b" else raw).decode("utf-8-sig")
    except (OSError, EOFError, ValueError) as error:
        raise BadRecording(f"{path}: cannot be read ({error})") from error
    found: list[Chat] = []
    for number, line in enumerate(text.split("\n"), 1):
        if not line.strip():
            continue
        try:
            value = json.loads(line)
        except ValueError as error:
            raise BadRecording(f"{path}, line {number}: broken JSON ({error})") from error
        if isinstance(value, dict) and "role" in value:
            found.append(value)
        elif not (isinstance(value, dict) and "meta" in value and not found):
            raise BadRecording(f"{path}, line {number}: not a message")
    return found


class _RequestLines:
    """Lines of requests. A recorded message is written as JSON once, however many requests hold it."""

    def __init__(self, recorded: Sequence[Chat]) -> None:
        self.written = {id(message): json.dumps(message) for message in (*recorded, FILLER)}

    def line(self, record: dict[str, Any]) -> str:
        messages = record.pop("messages", None)
        rest = json.dumps(record)
        if messages is None:
            return rest + "\n"
        inner = ", ".join(self.written.get(id(message)) or json.dumps(message) for message in messages)
        return f'{rest[:-1]}, "messages": [{inner}]}}\n'


class _RecordingPosition(NamedTuple):
    """Where the recording stands: what it began with, and what is to be answered now."""

    begins: Sequence[Chat]
    newest: Sequence[Chat]


def _make_record(peer: PeerSession, window: int, guarded: bool, moment: _RecordingPosition) -> dict[str, Any]:
    """What one request becomes, as the keys of its line."""
    record: dict[str, Any] = {}
    try:
        view = peer.decide()
    except Refused as refusal:
        if not guarded:
            return {"error": str(refusal)}
        record["refused"] = str(refusal)[:300]
        view = refusal.view
    except Exception as failure:  # noqa: BLE001 # whatever a library raises is its answer to this request
        return {"error": f"{type(failure).__name__}: {failure}"[:500]}
    if found := faults(view, window, moment.begins):
        record["faults"] = found
        if guarded:
            made = guard(view, window, moment.newest)
            record["guarded"] = {"tokens": tokens(view), "dropped": made.dropped, "clipped": made.clipped}
            view = made.messages
    return {**record, "messages": view}


def play(recorded: Sequence[Chat], peer: PeerSession, window: int, guarded: bool) -> Iterator[dict[str, Any]]:
    """A record for each assistant message, in order."""
    start = 0
    begins = recorded[lead(recorded) :][:1]
    for index, message in enumerate(recorded):
        if message["role"] == "assistant":
            record = {
                "at": index,
                **_make_record(peer, window, guarded, _RecordingPosition(begins, recorded[start:index])),
            }
            if spent := peer.spent():
                record["summaries"] = spent
            yield record
            start = index
        elif message["role"] != "tool":
            start = index
        peer.hear(index, message)


@contextmanager
def _open_whole_file(out: Path) -> Iterator[TextIO]:
    """A file that is there whole or not at all."""
    part = out.with_name(out.name + ".part")
    out.parent.mkdir(parents=True, exist_ok=True)
    with part.open("wb") as raw:
        if out.name.endswith(".gz"):
            # No name and no time inside: the same requests are the same bytes.
            with (
                gzip.GzipFile("", "wb", compresslevel=1, fileobj=raw, mtime=0) as packed,
                io.TextIOWrapper(packed, encoding="utf-8") as file,
            ):
                yield file
        else:
            with io.TextIOWrapper(raw, encoding="utf-8") as file:
                yield file
    part.replace(out)


class _RunOptions(NamedTuple):
    window: int
    guarded: bool
    settings: dict[str, Any]


def _play_file(recording: Path, out: Path, make: PeerFactory, order: _RunOptions) -> dict[str, Any]:
    """One recording to one file; what happened, in figures."""
    started = time.process_time()
    recorded = _read_recording(recording)
    lines = _RequestLines(recorded)
    figures: dict[str, Any] = {"recording": recording.name, "requests": 0, "errors": 0, "refused": 0, "summaries": 0}
    peer = make(order.window, dict(order.settings))
    try:
        with _open_whole_file(out) as file:
            for record in play(recorded, peer, order.window, order.guarded):
                figures["requests"] += 1
                figures["errors"] += "error" in record
                figures["refused"] += "refused" in record
                figures["summaries"] += len(record.get("summaries", ()))
                for fault in record.get("faults", ()):
                    figures[fault] = figures.get(fault, 0) + 1
                file.write(lines.line(record))
    finally:
        peer.close()
    return {**figures, "cpu": round(time.process_time() - started, 3)}


def _parse_arguments(defaults: dict[str, Any]) -> argparse.Namespace:
    known = ", ".join(f"{name} ({value})" for name, value in defaults.items())
    parser = argparse.ArgumentParser(description="Play recordings through a peer and write what it would have sent.")
    parser.add_argument("recordings", nargs="+", type=Path)
    parser.add_argument("--window", type=int, required=True, help="tokens, at four characters each")
    parser.add_argument("--out", type=Path, required=True, help="file (.gz packs it); a folder for several recordings")
    parser.add_argument("--settings", default="{}", help=f"JSON object; known here: {known or 'none'}")
    parser.add_argument("--guard", action=argparse.BooleanOptionalAction, default=True)
    given = parser.parse_args()
    try:
        settings = json.loads(given.settings)
    except ValueError as error:
        parser.error(f"--settings is not JSON: {error}")
    if given.window < 1:
        parser.error("--window must be at least 1")
    if not isinstance(settings, dict) or (unknown := [name for name in settings if name not in defaults]):
        parser.error(f"--settings: {unknown if isinstance(settings, dict) else settings!r} not known; known: {known}")
    given.settings = {**defaults, **settings}
    return given


def _alone() -> None:
    """Nothing played here is reported to anyone, whatever the caller's shell is set up for."""
    for name in ("LANGSMITH_TRACING", "LANGCHAIN_TRACING_V2", "LANGCHAIN_TRACING"):
        os.environ[name] = "false"
    os.environ["OTEL_SDK_DISABLED"] = "true"


def main(make: PeerFactory, defaults: dict[str, Any]) -> None:
    """`defaults` names the settings a script knows. Figures go to the standard output, a JSON line a recording."""
    _alone()
    given = _parse_arguments(defaults)
    order = _RunOptions(given.window, given.guard, given.settings)
    folder = len(given.recordings) > 1 or given.out.is_dir()
    for recording in given.recordings:
        out = given.out / (recording.name.split(".jsonl")[0] + ".jsonl.gz") if folder else given.out
        try:
            figures = _play_file(recording, out, make, order)
        except BadRecording as error:
            sys.exit(str(error))
        sys.stdout.write(json.dumps(figures) + "\n")
        sys.stdout.flush()
