"""A script for a peer's own interpreter: plays one recording after the other through a peer, over pipes.

    python serving.py FOLDER SCRIPT SETTINGS

Importing some of these libraries takes seconds, so one process serves many recordings; and a message that stays from
request to request is written once, not each time. Only the standard library, and nothing of tidegate. FOLDER holds the
peers' scripts, SCRIPT is the name of one of them, SETTINGS is a JSON object.

A job is a line on the standard input, `{"messages": [...], "window": N}`. For each assistant message a line comes back,
`{"at": its index, "new": [messages not written before], "is": [the request, as places among all that were written]}`,
or `{"at": ..., "error": ...}`, with `cpu` (seconds), `summaries` and `guarded` beside it; then `{"done": true}`.
"""

# mypy: disable-error-code="import-not-found"

import io
import json
import os
import runpy
import sys
import time
from collections.abc import Iterator
from typing import Any

_Json = dict[str, Any]


def _serve() -> None:
    folder, script, settings = sys.argv[1:4]
    sys.path[0] = folder  # as if the peer's script had been called itself
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # whatever a library prints is not an answer
    sys.stdout = io.TextIOWrapper(os.fdopen(os.dup(2), "wb"), line_buffering=True)
    import playing  # noqa: PLC0415 - found beside the peer's script only

    made: list[Any] = []
    playing.main = lambda make, defaults: made.extend((make, defaults))
    playing._alone()
    runpy.run_path(os.path.join(folder, f"{script}.py"), run_name="__main__")
    make, defaults = made
    asked = {**defaults, **json.loads(settings)}
    for line in sys.stdin:
        job = json.loads(line)
        peer = make(job["window"], dict(asked))
        try:
            for record in _compress_records(playing.play(job["messages"], peer, job["window"], True)):
                answers.write(json.dumps(record) + "\n")
            answers.write('{"done": true}\n')
        except Exception as failure:  # noqa: BLE001 - the next recording may well work
            answers.write(json.dumps({"failed": f"{type(failure).__name__}: {failure}"[:500]}) + "\n")
        finally:
            peer.close()
        answers.flush()


def _compress_records(records: Iterator[_Json]) -> Iterator[_Json]:
    """Each record with its messages as places in a table, and what making it took."""
    table: dict[int, int] = {}
    by_text: dict[str, int] = {}
    held: list[_Json] = []  # so that no identity is given out twice
    while True:
        begun = time.process_time()
        record = next(records, None)
        if record is None:
            return
        record["cpu"] = round(time.process_time() - begun, 6)
        messages = record.pop("messages", None)
        if messages is not None:
            new: list[_Json] = []
            for message in messages:
                if id(message) not in table:
                    text = json.dumps(message)
                    held.append(message)
                    if text not in by_text:
                        by_text[text] = len(by_text)
                        new.append(message)
                    table[id(message)] = by_text[text]
            record["new"], record["is"] = new, [table[id(message)] for message in messages]
        yield record


if __name__ == "__main__":
    _serve()
