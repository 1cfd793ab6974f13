"""LangChain's `SummarizationMiddleware`, as an agent runs it: what was summarised is deleted from the state.

Its own code decides, through `before_model`; messages enter by `add_messages` and its updates go back through it. It
has no default trigger: 0.8 of the window is what its documentation shows. `keep` (20 messages) and
`trim_tokens_to_summarize` (4,000, so only the end of what leaves is ever read) are its defaults.
"""

# mypy: disable-error-code="import-not-found, no-any-return"

from typing import Any

from chat_form import Chat
from langchain.agents.middleware import SummarizationMiddleware
from langchain_core.language_models import FakeListChatModel
from langchain_core.messages import AnyMessage
from langchain_form import Form
from langgraph.graph.message import add_messages
from langgraph.runtime import Runtime
from playing import main
from summary import Summariser

DEFAULT_SETTINGS = {"trigger": 0.8, "keep": ["messages", 20], "trim_tokens_to_summarize": 4000}


class LangChainSummary:
    def __init__(self, window: int, settings: dict[str, Any]) -> None:
        self.form = Form()
        self.summariser = Summariser(window)
        self.middleware = SummarizationMiddleware(
            model=FakeListChatModel(responses=[""]),
            trigger=("tokens", int(settings["trigger"] * window)),
            keep=tuple(settings["keep"]),
            token_counter=self.form.count,
            trim_tokens_to_summarize=settings["trim_tokens_to_summarize"],
            summarizer=lambda messages: self.summariser.write([self.form.back(one) for one in messages]),
        )
        self.state: list[AnyMessage] = []

    def hear(self, index: int, message: Chat) -> None:
        made = self.form.native(index, message)
        if made is not None:
            self.state.append(made)

    def decide(self) -> list[Chat]:
        update = self.middleware.before_model({"messages": self.state}, Runtime())
        if update is not None:
            self.state = list(add_messages(self.state, update["messages"]))
        return self.form.view(self.state)

    def spent(self) -> list[dict[str, int]]:
        return self.summariser.spent()

    def close(self) -> None:
        """Nothing is open."""


if __name__ == "__main__":
    main(LangChainSummary, DEFAULT_SETTINGS)
