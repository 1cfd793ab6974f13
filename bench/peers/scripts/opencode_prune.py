"""opencode's prune, written again from its behavior: opencode is a TypeScript program and cannot be imported.

At the end of a turn it goes back from the newest message. The newest two turns and the newest 40,000 tokens of tool
output stay; older output is cleared if that frees more than 20,000 tokens. Output of the tool `skill` is never
cleared, and it stops at output that was cleared before. Both numbers are meant for windows of about 200,000 tokens, so
a fifth and a tenth of the window are used here. Its summary on overflow is not included; the guard takes its place.
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
        turns, total, freed = 0, 0.0, 0.0
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
            total += tokens
            if total > self.protect:
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
