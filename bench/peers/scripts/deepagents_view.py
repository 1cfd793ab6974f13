"""deepagents: large results go to files, long arguments are clipped, then a summary; the state keeps every message.

The library's code decides, in the order of an agent made by `create_deep_agent`: `FilesystemMiddleware.wrap_tool_call`
for each result, then its `wrap_model_call` around that of the middleware from `create_summarization_middleware`, whose
shares of the window (0.85, of which 0.10 stays) come from the model's profile. It moves results of more than 20,000
tokens and user messages of more than 50,000 to files; these numbers are for windows of 200,000, so here a tenth and a
quarter of the window are used. The files are in a temporary folder that is removed at the end.
"""

# mypy: disable-error-code="import-not-found, no-any-return"

import tempfile
import warnings
from typing import Any

from chat_messages import Chat
from deepagents.backends import FilesystemBackend
from deepagents.middleware.filesystem import FilesystemMiddleware
from deepagents.middleware.summarization import create_summarization_middleware
from extractive_summary import ExtractiveSummarizer
from langchain.agents.middleware import ExtendedModelResponse, ModelRequest, ModelResponse
from langchain_core.exceptions import ContextOverflowError
from langchain_core.language_models import FakeListChatModel
from langchain_core.messages import AIMessage, AnyMessage, ToolMessage
from langchain_messages import LangChainConverter
from langgraph.graph.message import add_messages
from langgraph.prebuilt.tool_node import ToolCallRequest
from replay_driver import PeerRefusal

DEFAULT_SETTINGS = {"evict_result": 0.1, "evict_user": 0.25}
_EMPTY_ANSWER = ModelResponse(result=[AIMessage(content="")])
_SESSION_ID = "session_played"
"""Names the file of evicted history, which the model is told: a fixed name, so that a run can be repeated."""


class DeepAgentsView:
    def __init__(self, window: int, settings: dict[str, Any]) -> None:
        # Some tell in a warning what they tell in the request; both would be too much here.
        warnings.simplefilter("ignore")
        self.converter = LangChainConverter()
        self.summarizer = ExtractiveSummarizer(window)
        self.folder = tempfile.TemporaryDirectory(prefix="peer-deepagents-")
        backend = FilesystemBackend(root_dir=self.folder.name, virtual_mode=True)
        self.files = FilesystemMiddleware(
            backend=backend,
            tool_token_limit_before_evict=int(settings["evict_result"] * window),
            human_message_token_limit_before_evict=int(settings["evict_user"] * window),
        )
        self.model = FakeListChatModel(responses=[""], profile={"max_input_tokens": window})
        self.summaries = create_summarization_middleware(
            self.model,
            backend,
            token_counter=self.converter.count_tokens,
            summarizer=lambda messages: self.summarizer.write([self.converter.to_chat(one) for one in messages]),
        )
        self.state: dict[str, Any] = {"messages": [], "_summarization_session_id": _SESSION_ID}
        self.calls: dict[str, Any] = {}
        self.sent: list[AnyMessage] = []

    def add_message(self, index: int, message: Chat) -> None:
        native = self.converter.to_native(index, message)
        if isinstance(native, ToolMessage):
            call = self.calls.get(native.tool_call_id) or {"name": "", "args": {}, "id": native.tool_call_id}
            request = ToolCallRequest(tool_call=call, tool=None, state={"messages": []}, runtime=None)
            native = self.files.wrap_tool_call(request, lambda _: native)
        elif isinstance(native, AIMessage):
            self.calls.update({call["id"]: call for call in native.tool_calls})
        if native is not None:
            self.state["messages"].append(native)

    def capture_request(self, request: ModelRequest) -> ModelResponse:
        """Where the model would be called."""
        self.sent = request.messages
        return _EMPTY_ANSWER

    def inner(self, request: ModelRequest) -> ModelResponse:
        self.sent = self.summaries._get_effective_messages(request)
        return self.apply_update(self.summaries.wrap_model_call(request, self.capture_request))

    def apply_update(self, response: ModelResponse | ExtendedModelResponse) -> ModelResponse:
        """The update a middleware asks for, applied as its graph would."""
        if not isinstance(response, ExtendedModelResponse):
            return response
        update = dict(response.command.update or {}) if response.command is not None else {}
        messages = update.pop("messages", [])
        if messages:
            self.state["messages"] = list(add_messages(self.state["messages"], messages))
        self.state.update(update)
        return response.model_response

    def build_request(self) -> list[Chat]:
        request = ModelRequest(
            model=self.model,
            messages=list(self.state["messages"]),
            system_message=self.converter.make_system_message(),
            state=self.state,
        )
        try:
            self.apply_update(self.files.wrap_model_call(request, self.inner))
        except ContextOverflowError as refusal:
            raise PeerRefusal(str(refusal), self.converter.to_request(self.sent)) from refusal
        return self.converter.to_request(self.sent)

    def take_summary_costs(self) -> list[dict[str, int]]:
        return self.summarizer.take_summary_costs()

    def close(self) -> None:
        self.folder.cleanup()


create_peer = DeepAgentsView
