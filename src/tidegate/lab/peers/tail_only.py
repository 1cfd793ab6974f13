"""Tail only, re-expressed: the system's messages and the newest groups that fit; the rest is gone.

With `low` at 0 the cut moves at every request (a sliding window). With `low` above 0 it stays until the window is full,
and then leaves only so large a part of the window: the beginning stays the same for many requests.
No library's code: this is what `messages[-n:]` amounts to when it keeps pairs whole and is told a window.
"""

# mypy: disable-error-code="import-not-found"

from typing import Any

from chat_form import CHARS_PER_TOKEN, SYSTEM, Chat, size
from guarding import FILLER
from playing import main

DEFAULT_SETTINGS = {"low": 0.0}


class TailOnly:
    def __init__(self, window: int, settings: dict[str, Any]) -> None:
        self.most = window * CHARS_PER_TOKEN
        self.low = int(self.most * settings["low"]) or self.most
        self.head: list[Chat] = []
        self.groups: list[list[Chat]] = []
        self.sizes: list[int] = []
        self.first = 0

    def hear(self, index: int, message: Chat) -> None:
        if message["role"] in SYSTEM and not self.groups:
            self.head.append(message)
        elif message["role"] == "tool" and self.groups:
            self.groups[-1].append(message)
            self.sizes[-1] += size(message)
        else:
            self.groups.append([message])
            self.sizes.append(size(message))

    def decide(self) -> list[Chat]:
        fixed = sum(map(size, self.head)) + size(FILLER)
        if fixed + sum(self.sizes[self.first :]) > self.most:
            self.first = max(0, len(self.groups) - 1)
            held = fixed + sum(self.sizes[self.first :])
            while self.first and held + self.sizes[self.first - 1] <= self.low:
                self.first -= 1
                held += self.sizes[self.first]
        said = [message for group in self.groups[self.first :] for message in group]
        begins = [FILLER] if self.first and said[0]["role"] != "user" else []
        return [*self.head, *begins, *said]

    def spent(self) -> list[dict[str, int]]:
        return []

    def close(self) -> None:
        """Nothing is open."""


if __name__ == "__main__":
    main(TailOnly, DEFAULT_SETTINGS)
