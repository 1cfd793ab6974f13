"""A writer with a data folder of its own, in a session shared with others. It repeats each call until it is done.

    python -m tests.team.pooled_writer URL FOLDER NUMBER ROUNDS MESSAGES

It waits for a line before each round, and prints one for each message that was acknowledged: its id and its text.
"""

import sys
from collections.abc import Callable
from pathlib import Path
from threading import Event
from typing import TypeVar

from tidegate import DataFolder
from tidegate.core.errors import NotKept
from tidegate.store.errors import StoreUnreachable

_T = TypeVar("_T")
SESSION = "shared"


def repeat_until_done(call: Callable[[], _T]) -> _T:
    for _ in range(6_000):
        try:
            return call()
        except (NotKept, StoreUnreachable):
            Event().wait(0.1)
    raise AssertionError("the database did not come back")


def main(url: str, folder: str, number: str, rounds: str, messages: str) -> None:
    with DataFolder(Path(folder), store=url, secrets=[]) as data, data.open(SESSION, "gpt-4o", window=8_000) as session:
        print("ready", flush=True)
        for place in range(int(rounds) * int(messages)):
            if place % int(messages) == 0:
                sys.stdin.readline()
            text = f"writer{number}.{place}"
            (ident,) = repeat_until_done(lambda text=text: session.add({"role": "user", "content": text}))  # type: ignore[misc]
            print(ident, text, flush=True)
            if place % 4 == 3:
                repeat_until_done(session.prepare)


if __name__ == "__main__":
    main(*sys.argv[1:])
