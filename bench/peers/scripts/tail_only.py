"""Tail only, written for the lab: the system messages and the newest groups that fit; the rest is dropped.

With `low` at 0 the cut moves at every request (a sliding window). With `low` above 0 it stays until the window is full
and then keeps only that share of the window, so that the beginning stays the same for many requests. This is no
library's code: it is what `messages[-n:]` does if it keeps pairs together and knows the window.
"""

# mypy: disable-error-code="import-not-found"

from typing import Any

from chat_messages import CHARS_PER_TOKEN, SYSTEM_ROLES, Chat, count_chars
from request_guard import FILLER_MESSAGE

DEFAULT_SETTINGS = {"low": 0.0}


class TailOnly:
    def __init__(self, window: int, settings: dict[str, Any]) -> None:
        self.most = window * CHARS_PER_TOKEN
        self.low = int(self.most * settings["low"]) or self.most
        self.head: list[Chat] = []
        self.groups: list[list[Chat]] = []
        self.sizes: list[int] = []
        self.first = 0

    def add_message(self, index: int, message: Chat) -> None:
        if message["role"] in SYSTEM_ROLES and not self.groups:
            self.head.append(message)
        elif message["role"] == "tool" and self.groups:
            self.groups[-1].append(message)
            self.sizes[-1] += count_chars(message)
        else:
            self.groups.append([message])
            self.sizes.append(count_chars(message))

    def build_request(self) -> list[Chat]:
        fixed = sum(map(count_chars, self.head)) + count_chars(FILLER_MESSAGE)
        if fixed + sum(self.sizes[self.first :]) > self.most:
            self.first = max(0, len(self.groups) - 1)
            tokens = fixed + sum(self.sizes[self.first :])
            while self.first and tokens + self.sizes[self.first - 1] <= self.low:
                self.first -= 1
                tokens += self.sizes[self.first]
        tail = [message for group in self.groups[self.first :] for message in group]
        begins = [FILLER_MESSAGE] if self.first and tail[0]["role"] != "user" else []
        return [*self.head, *begins, *tail]

    def take_summary_costs(self) -> list[dict[str, int]]:
        return []

    def close(self) -> None:
        """Nothing is open."""


create_peer = TailOnly
