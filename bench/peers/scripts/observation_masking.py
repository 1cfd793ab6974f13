"""Observation masking, written again for the lab: all but the newest observations become a line with their length.

It follows SWE-agent's processor of the last n observations, with the 10 that the study "The Complexity Trap" found
best. Reasoning, calls and the first observation stay whole. With `polling` above 1 the mask moves only after that many
observations. It does not look at tokens; the guard removes what is over the window.
"""

# mypy: disable-error-code="import-not-found"

from typing import Any

from chat_messages import Chat, read_chat_text

DEFAULT_SETTINGS = {"keep": 10, "polling": 1}


class ObservationMasking:
    def __init__(self, window: int, settings: dict[str, Any]) -> None:
        self.keep, self.polling = int(settings["keep"]), int(settings["polling"])
        self.said: list[Chat] = []
        self.seen: list[int] = []
        self.masked = 1

    def add_message(self, index: int, message: Chat) -> None:
        if message["role"] == "tool":
            self.seen.append(len(self.said))
        self.said.append(message)

    def build_request(self) -> list[Chat]:
        due = len(self.seen) // self.polling * self.polling - self.keep
        for at in self.seen[self.masked : max(self.masked, due)]:
            count = len(read_chat_text(self.said[at]).splitlines())
            self.said[at] = {**self.said[at], "content": f"Old environment output: ({count} lines omitted)"}
        self.masked = max(self.masked, due)
        return list(self.said)

    def take_summary_costs(self) -> list[dict[str, int]]:
        return []

    def close(self) -> None:
        """Nothing is open."""


create_peer = ObservationMasking
