"""LangChain's `trim_messages`: the newest messages that fit, from the whole history at every call.

Used as its documentation shows, with the system message kept, except that the result may also begin with an assistant
message. If it had to begin with a user message, nothing would be left of a long turn of an agent.
"""

# mypy: disable-error-code="import-not-found, no-any-return"

from typing import Any

from chat_messages import Chat, count_chat_tokens
from langchain_core.messages import AnyMessage, trim_messages
from langchain_messages import LangChainConverter

DEFAULT_SETTINGS = {"max_tokens": 1.0, "start_on": ["human", "ai"]}


class LangChainTrim:
    def __init__(self, window: int, settings: dict[str, Any]) -> None:
        self.converter = LangChainConverter()
        self.most = int(settings["max_tokens"] * window)
        self.start_on = tuple(settings["start_on"])
        self.state: list[AnyMessage] = []

    def add_message(self, index: int, message: Chat) -> None:
        native = self.converter.to_native(index, message)
        if native is not None:
            self.state.append(native)

    def build_request(self) -> list[Chat]:
        messages = trim_messages(
            self.state,
            max_tokens=max(1, self.most - count_chat_tokens(self.converter.head)),
            strategy="last",
            token_counter=self.converter.count_tokens,
            start_on=self.start_on,
            include_system=True,
        )
        return self.converter.to_request(messages)

    def take_summary_costs(self) -> list[dict[str, int]]:
        return []

    def close(self) -> None:
        """Nothing is open."""


create_peer = LangChainTrim
