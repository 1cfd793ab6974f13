"""Google ADK: a plugin for an app.

    app = App(name="app", root_agent=agent, plugins=[TidegatePlugin(window=32_000)])

Each model call gets a view of the contents that fits the window. The events of the ADK session are not changed. The id
of the ADK session is the name of ours; a sub-agent sees its own form of the conversation and has a session of its own,
named after both. `recall_tool()` is a tool for an agent.
"""

import asyncio
import base64
from collections import OrderedDict
from collections.abc import Sequence
from typing import Any

from tidegate.core.messages import Call, Message, Part, Result, Text, Thinking, Tool, result_of, text_of
from tidegate.core.policy.policy import Policy
from tidegate.integrations.content_blocks import read_text
from tidegate.integrations.host_messages import MessagePiece, PartEdit, render_result_text
from tidegate.integrations.threads import (
    RECALL_DESCRIPTION,
    CallPreparer,
    DataLocation,
    PreparedCall,
    ThreadSessions,
    describe_missing_framework,
    make_usage,
)
from tidegate.session.following import FixedPart
from tidegate.session.session import Session
from tidegate.wire.parsing import build_tool_message, decode_object, encode_json_text, image_from_base64, repair_unicode
from tidegate.wire.splicing.units import make_opaque

try:
    from google.adk.agents.callback_context import CallbackContext
    from google.adk.models import LlmRequest, LlmResponse
    from google.adk.plugins.base_plugin import BasePlugin
    from google.adk.tools import FunctionTool, ToolContext
    from google.genai import types
except ImportError as missing:
    raise describe_missing_framework("google-adk", missing) from missing

_MAX_CALLS = 1_000


class AdkFormat:
    """How contents of Gemini's API are read and copied."""

    results_are_user = True

    def read(self, host: types.Content) -> list[MessagePiece]:
        listed = host.parts or []
        if host.role == "model":
            parts = tuple(map(_read_part, listed))
            return [MessagePiece(Message("assistant", parts), tuple(range(len(parts))))]
        found = [
            MessagePiece(_read_response(part.function_response), (place,))
            for place, part in enumerate(listed)
            if part.function_response
        ]
        rest = [(place, _read_part(part)) for place, part in enumerate(listed) if not part.function_response]
        if rest:
            message = Message("user", tuple(part for _, part in rest))
            found.append(MessagePiece(message, tuple(place for place, _ in rest)))
        return found

    def rewrite(self, host: types.Content, edits: Sequence[PartEdit]) -> types.Content:
        return host.model_copy(update={"parts": [_write_part(host.parts or [], edit) for edit in edits]})

    def insert(self, message: Message) -> types.Content:
        result = result_of(message)
        if result is not None:
            answer = {"output": render_result_text(result)}
            returned = types.FunctionResponse(id=result.call_id, name="tool", response=answer)
            return types.Content(role="user", parts=[types.Part(function_response=returned)])
        role = "model" if message.role == "assistant" else "user"
        return types.Content(role=role, parts=[types.Part(text=text_of(message))])


def _read_part(part: types.Part) -> Part:
    signature = base64.b64encode(part.thought_signature or b"").decode()
    if part.function_call:
        call = part.function_call
        arguments = encode_json_text(call.args or {})
        return Call(call.id or "", call.name or "", arguments, signature)
    if part.thought:
        return Thinking(block=signature) if signature else Thinking(repair_unicode(part.text or ""))
    if part.text is not None:
        return Text(read_text(part.text).text, signature)
    if part.inline_data and part.inline_data.data:
        data = base64.b64encode(part.inline_data.data).decode()
        return image_from_base64(data, part.inline_data.mime_type or "image/png")
    return make_opaque(part.model_dump(mode="json", exclude_none=True))


def _read_response(response: Any) -> Message:
    given = response.response or {}
    only = next(iter(given.values())) if len(given) == 1 else None
    text = only if isinstance(only, str) else encode_json_text(given)
    return build_tool_message(response.id or "", [read_text(text)], "error" in given)


def _write_part(listed: Sequence[types.Part], edit: PartEdit) -> types.Part:
    old, part = listed[edit.place] if edit.place >= 0 else None, edit.part
    if old is not None and part is None:
        return old
    if isinstance(part, Result) and old is not None and old.function_response is not None:
        key = next(iter(old.function_response.response or {}), "output")
        response = {key if key in ("result", "output", "error") else "output": render_result_text(part)}
        return types.Part(function_response=old.function_response.model_copy(update={"response": response}))
    if isinstance(part, Call) and old is not None and old.function_call is not None:
        call = old.function_call.model_copy(update={"args": decode_object(part.arguments)})
        return old.model_copy(update={"function_call": call})
    return types.Part(text=part.text if isinstance(part, Text) else "")


class TidegatePlugin(BasePlugin):
    """Keeps the contents of an agent in a log and sends a view of them that fits the window.

    The parameters are those of `ThreadSessions`.
    """

    def __init__(
        self,
        data: DataLocation = None,
        *,
        model: str = "",
        window: int | None = None,
        reserve: int | None = None,
        policy: str | Policy = "default",
        session: str = "",
    ) -> None:
        super().__init__(name="tidegate")
        self.threads = ThreadSessions(data, model=model, window=window, reserve=reserve, policy=policy, session=session)
        self._preparer = CallPreparer(self.threads, AdkFormat())
        self._calls: OrderedDict[tuple[str, str], PreparedCall[types.Content]] = OrderedDict()

    def session(self, name: str) -> Session:
        """The session of this name, to explain and to recall."""
        return self.threads.session(name)

    def recall_tool(self) -> FunctionTool:
        """The tool with which the model reads what left the view."""

        async def recall(what: str, tool_context: ToolContext, offset: int = 0) -> str:
            return await asyncio.to_thread(self.threads.recall, self._name_session(tool_context), what, offset)

        recall.__doc__ = RECALL_DESCRIPTION
        return FunctionTool(recall)

    def _name_session(self, context: Any) -> str:
        name = self.threads.name_thread(context.session.id, "google-adk")
        root = context.get_invocation_context().agent.root_agent.name
        return name if context.agent_name == root else f"{name}.{context.agent_name}"

    async def before_model_callback(self, *, callback_context: CallbackContext, llm_request: LlmRequest) -> None:
        name = self._name_session(callback_context)

        def prepare() -> PreparedCall[types.Content]:
            fixed_part = FixedPart(_read_system(llm_request.config), _read_tools(llm_request.config))
            return self._preparer.prepare(
                name, llm_request.contents, model=llm_request.model or "", fixed_part=fixed_part
            )

        call = await asyncio.to_thread(prepare)
        self._calls[callback_context.invocation_id, name] = call
        while len(self._calls) > _MAX_CALLS:
            self._calls.popitem(last=False)
        llm_request.contents = call.messages

    async def after_model_callback(self, *, callback_context: CallbackContext, llm_response: LlmResponse) -> None:
        if llm_response.partial or llm_response.content is None:
            return
        call = self._calls.pop((callback_context.invocation_id, self._name_session(callback_context)), None)
        if call is None:
            return
        used = llm_response.usage_metadata
        tokens = used.prompt_token_count if used else None
        report = (
            make_usage(tokens, used.candidates_token_count or 0, used.cached_content_token_count or 0)
            if used and tokens
            else None
        )
        # The answer itself is logged with the next call: ADK gives its calls their ids only after this callback.
        await asyncio.to_thread(call.record, None, report)


def _read_system(config: types.GenerateContentConfig) -> str:
    given = config.system_instruction
    return given if isinstance(given, str) else encode_json_text(str(given)) if given else ""


def _read_tools(config: types.GenerateContentConfig) -> tuple[Tool, ...]:
    declared = [each for tool in config.tools or () for each in getattr(tool, "function_declarations", None) or ()]
    return tuple(
        Tool(each.name or "", each.description or "", each.model_dump_json(exclude_none=True, include={"parameters"}))
        for each in declared
    )
