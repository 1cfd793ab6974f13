"""opencode's prune, re-expressed from its behaviour; it is a TypeScript program and cannot be imported.

When a turn has ended it walks back from the newest message, leaves the newest two turns alone, lets the newest 40,000
tokens of tool output stand, and clears what is older if that frees more than 20,000. Output of the tool `skill` is
never cleared, and it stops at what was cleared before. Both numbers are for windows of about 200,000 tokens: here they
are that share of the window, a fifth and a tenth. Its summary on overflow is not re-expressed: the guard stands in.
"""

# mypy: disable-error-code="import-not-found"

from typing import Any

from chat_messages import CHARS_PER_TOKEN, Chat, read_chat_text

DEFAULT_SETTINGS = {"protect": 0.2, "minimum": 0.1, "turns": 2, "protected": ["skill"]}
_CLEARED_TEXT = "[Old tool result content cleared]"


class OpencodePrune:
    def __init__(self, window: int, settings: dict[str, Any]) -> None:
        self.protect = settings["protect"] * window
        self.minimum = settings["minimum"] * window
        self.turns = settings["turns"]
        self.protected = frozenset(settings["protected"])
        self.said: list[Chat] = []
        self.names: dict[str, str] = {}
        self.cleared: set[int] = set()

    def add_message(self, index: int, message: Chat) -> None:
        if message["role"] == "user":
            self.prune()
        for call in message.get("tool_calls") or ():
            self.names[call["id"]] = call["function"]["name"]
        self.said.append(message)

    def prune(self) -> None:
        """What is done when a turn has ended, that is, before the user's next words."""
        turns, seen, freed = 0, 0.0, 0.0
        old: list[int] = []
        for at in range(len(self.said) - 1, -1, -1):
            message = self.said[at]
            turns += message["role"] == "user"
            if turns < self.turns or message["role"] != "tool":
                continue
            if self.names.get(message["tool_call_id"]) in self.protected:
                continue
            if at in self.cleared:
                break
            tokens = len(read_chat_text(message)) / CHARS_PER_TOKEN
            seen += tokens
            if seen > self.protect:
                freed += tokens
                old.append(at)
        if freed > self.minimum:
            for at in old:
                self.said[at] = {**self.said[at], "content": _CLEARED_TEXT}
            self.cleared.update(old)

    def build_request(self) -> list[Chat]:
        return list(self.said)

    def take_summary_costs(self) -> list[dict[str, int]]:
        return []

    def close(self) -> None:
        """Nothing is open."""


create_peer = OpencodePrune
