"""LangChain's `ContextEditingMiddleware` with `ClearToolUsesEdit`: old tool results become a placeholder.

The library's code decides, through `wrap_model_call`, from the whole history at every call. All settings are its
defaults except the trigger: 100,000 tokens is meant for windows of 200,000, so half of the window is used here.
"""

# mypy: disable-error-code="import-not-found, no-any-return"

from typing import Any

from chat_messages import Chat
from langchain.agents.middleware import ClearToolUsesEdit, ContextEditingMiddleware, ModelRequest, ModelResponse
from langchain_core.language_models import FakeListChatModel
from langchain_core.messages import AIMessage, AnyMessage
from langchain_messages import LangChainConverter

DEFAULT_SETTINGS = {"trigger": 0.5, "keep": 3, "clear_at_least": 0.0, "clear_tool_inputs": False}
_EMPTY_ANSWER = ModelResponse(result=[AIMessage(content="")])


class LangChainClear:
    def __init__(self, window: int, settings: dict[str, Any]) -> None:
        self.converter = LangChainConverter()
        self.model = FakeListChatModel(responses=[""])
        edit = ClearToolUsesEdit(
            trigger=int(settings["trigger"] * window),
            keep=settings["keep"],
            clear_at_least=int(settings["clear_at_least"] * window),
            clear_tool_inputs=settings["clear_tool_inputs"],
        )
        self.middleware = ContextEditingMiddleware(edits=[edit], token_counter=self.converter.count_tokens)
        self.state: list[AnyMessage] = []
        self.sent: list[AnyMessage] = []

    def add_message(self, index: int, message: Chat) -> None:
        native = self.converter.to_native(index, message)
        if native is not None:
            self.state.append(native)

    def capture_request(self, request: ModelRequest) -> ModelResponse:
        """Where the model would be called."""
        self.sent = request.messages
        return _EMPTY_ANSWER

    def build_request(self) -> list[Chat]:
        system = self.converter.make_system_message()
        request = ModelRequest(model=self.model, messages=list(self.state), system_message=system, state={})
        self.middleware.wrap_model_call(request, self.capture_request)
        return self.converter.to_request(self.sent)

    def take_summary_costs(self) -> list[dict[str, int]]:
        return []

    def close(self) -> None:
        """Nothing is open."""


create_peer = LangChainClear
