"""Play one recording after the other through a peer, over pipes.

    python replay_server.py SCRIPT SETTINGS

Run by the peer's own interpreter: standard library only. Importing some libraries takes seconds, so one process serves
many recordings, and a message that stays from request to request is written once. SCRIPT is the name of a module
beside this file with `create_peer(window, settings)` and `DEFAULT_SETTINGS`; SETTINGS is a JSON object that overrides
some.

A job is a line on the standard input, `{"messages": [...], "window": N}`; `"guard": false` leaves the peer's requests
as they are. For each assistant message a line comes back, `{"at": its index, "new": [messages not written before],
"is": [the request, as positions among all messages written]}`, or `{"at": ..., "error": ...}`. Other keys of a line:
`cpu` (seconds), and those of `replay_driver`. The last line of a job is `{"done": true}`.
"""

# mypy: disable-error-code="import-not-found"

import importlib
import io
import json
import os
import sys
import time
from collections.abc import Iterator
from typing import Any

from replay_driver import play_recording

_Json = dict[str, Any]


def _serve() -> None:
    script, overrides = sys.argv[1], json.loads(sys.argv[2])
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # so that output of a library is not an answer
    sys.stdout = io.TextIOWrapper(os.fdopen(os.dup(2), "wb"), line_buffering=True)
    _disable_tracing()
    adapter = importlib.import_module(script)
    defaults = adapter.DEFAULT_SETTINGS
    if unknown := [name for name in overrides if name not in defaults]:
        sys.exit(f"{script} has no setting {', '.join(unknown)}; it has: {', '.join(defaults)}")
    for line in sys.stdin:
        job = json.loads(line)
        peer = adapter.create_peer(job["window"], {**defaults, **overrides})
        try:
            records = play_recording(job["messages"], peer, job["window"], job.get("guard", True))
            for record in _compress_records(records):
                answers.write(json.dumps(record) + "\n")
            answers.write('{"done": true}\n')
        except Exception as failure:  # noqa: BLE001 - the next recording may well work
            answers.write(json.dumps({"failed": f"{type(failure).__name__}: {failure}"[:500]}) + "\n")
        finally:
            peer.close()
        answers.flush()


def _disable_tracing() -> None:
    """Keep libraries from reporting a replay to a tracing service that the caller's shell names."""
    for name in ("LANGSMITH_TRACING", "LANGCHAIN_TRACING_V2", "LANGCHAIN_TRACING"):
        os.environ[name] = "false"
    os.environ["OTEL_SDK_DISABLED"] = "true"


def _compress_records(records: Iterator[_Json]) -> Iterator[_Json]:
    """Yield each record with its messages as positions in a table, and with the CPU seconds it took."""
    table: dict[int, int] = {}
    by_text: dict[str, int] = {}
    references: list[_Json] = []  # referenced, so that no id is used twice
    while True:
        start = time.process_time()
        record = next(records, None)
        if record is None:
            return
        record["cpu"] = round(time.process_time() - start, 6)
        messages = record.pop("messages", None)
        if messages is not None:
            new: list[_Json] = []
            for message in messages:
                if id(message) not in table:
                    text = json.dumps(message)
                    references.append(message)
                    if text not in by_text:
                        by_text[text] = len(by_text)
                        new.append(message)
                    table[id(message)] = by_text[text]
            record["new"], record["is"] = new, [table[id(message)] for message in messages]
        yield record


if __name__ == "__main__":
    _serve()
