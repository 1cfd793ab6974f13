"""A writer of its own process: python appending.py URL SESSION WRITER ROUNDS COUNT. It prints what was acknowledged,
and waits for a line before each round."""

import sys

from tidegate.store.errors import StaleHead
from tidegate.store.open import open_store


def main(url: str, session: str, writer: str, rounds: str, count: str) -> None:
    store = open_store(url)
    head = store.head(session)
    for number in range(int(rounds) * int(count)):
        if number % int(count) == 0:
            print("ready", flush=True)
            sys.stdin.readline()
        record = f"{writer}-{number}".encode()
        while True:
            try:
                head = store.append(session, head, [record])
                break
            except StaleHead:
                head = store.head(session)
        print(head, record.decode(), flush=True)
    store.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
