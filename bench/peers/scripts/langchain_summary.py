"""LangChain's `SummarizationMiddleware`, as an agent runs it: summarized messages are deleted from the state.

The library's code decides, through `before_model`; messages are added with `add_messages`, and its updates are applied
with it. It has no default trigger: 0.8 of the window is what its documentation shows. `keep` (20 messages) and
`trim_tokens_to_summarize` (4,000, so that only the end of the removed messages is read) are its defaults.
"""

# mypy: disable-error-code="import-not-found, no-any-return"

from typing import Any

from chat_messages import Chat
from extractive_summary import ExtractiveSummarizer
from langchain.agents.middleware import SummarizationMiddleware
from langchain_core.language_models import FakeListChatModel
from langchain_core.messages import AnyMessage
from langchain_messages import LangChainConverter
from langgraph.graph.message import add_messages
from langgraph.runtime import Runtime

DEFAULT_SETTINGS = {"trigger": 0.8, "keep": ["messages", 20], "trim_tokens_to_summarize": 4000}


class LangChainSummary:
    def __init__(self, window: int, settings: dict[str, Any]) -> None:
        self.converter = LangChainConverter()
        self.summarizer = ExtractiveSummarizer(window)
        self.middleware = SummarizationMiddleware(
            model=FakeListChatModel(responses=[""]),
            trigger=("tokens", int(settings["trigger"] * window)),
            keep=tuple(settings["keep"]),
            token_counter=self.converter.count_tokens,
            trim_tokens_to_summarize=settings["trim_tokens_to_summarize"],
            summarizer=lambda messages: self.summarizer.write([self.converter.to_chat(one) for one in messages]),
        )
        self.state: list[AnyMessage] = []

    def add_message(self, index: int, message: Chat) -> None:
        native = self.converter.to_native(index, message)
        if native is not None:
            self.state.append(native)

    def build_request(self) -> list[Chat]:
        update = self.middleware.before_model({"messages": self.state}, Runtime())
        if update is not None:
            self.state = list(add_messages(self.state, update["messages"]))
        return self.converter.to_request(self.state)

    def take_summary_costs(self) -> list[dict[str, int]]:
        return self.summarizer.take_summary_costs()

    def close(self) -> None:
        """Nothing is open."""


create_peer = LangChainSummary
