"""Microsoft Agent Framework: a chat middleware for an agent.

    agent = Agent(client, middleware=[TidegateMiddleware(window=32_000)])
    result = await agent.run("...", session=agent.create_session(session_id="build-fix"))

Each model call gets a view of the messages that fits the window; the framework's own list and the history of its
session are not changed. The id of the session is the name of ours. A run without a session continues the one whose
messages it begins with, or has a new one. `recall_tool()` is a tool for the agent.

The framework's `compaction_strategy` is not used: it gets the list of messages and nothing else. It does not know the
session, the tools, the answer and its usage, and it works by marking the framework's own messages as excluded.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextvars import ContextVar
from copy import copy
from typing import Annotated, Any, Unpack

from tidegate.core.messages import Call, Part, Result, Role, Tool
from tidegate.integrations.block_format import BlockFormat, build_result
from tidegate.integrations.content_blocks import read_call, read_text, read_thinking
from tidegate.integrations.model_calls import AdapterSettings, CallPreparer, PreparedCall, make_usage
from tidegate.integrations.provider_errors import describe_upstream
from tidegate.integrations.threads import (
    RECALL_DESCRIPTION,
    ConversationPlace,
    DataLocation,
    SessionAccess,
    describe_missing_framework,
)
from tidegate.session.following import FixedPart
from tidegate.session.summaries.model_question import ModelAnswer
from tidegate.wire.parsing import encode_json_text, image_from_url
from tidegate.wire.splicing.units import make_opaque

try:
    from agent_framework import ChatContext, ChatMiddleware, ChatResponse, Content, FunctionTool, ResponseStream, tool
    from agent_framework import Message as FrameworkMessage
except ImportError as missing:
    raise describe_missing_framework("agent-framework", missing) from missing


class AgentFrameworkFormat(BlockFormat[FrameworkMessage]):
    """How messages of the framework are read and copied."""

    def list_blocks(self, host: FrameworkMessage) -> tuple[Role, Sequence[Any]]:
        return "assistant" if host.role == "assistant" else "user", host.contents

    def copy_with(self, host: FrameworkMessage, blocks: list[Any]) -> FrameworkMessage:
        if host.role != "assistant" and all(content.type == "text" for content in blocks):
            blocks = [Content.from_text("\n\n".join(content.text or "" for content in blocks))]
        message = copy(host)
        message.contents = blocks
        return message

    def create(self, role: Role, blocks: list[Any]) -> FrameworkMessage:
        return FrameworkMessage(role, blocks)

    def read_block(self, block: Content) -> Part:
        if block.type == "text":
            return read_text(block.text or "")
        if block.type == "text_reasoning":
            is_signed = block.protected_data or block.id
            return read_thinking(block.text or "", encode_json_text(block.to_dict()) if is_signed else "")
        if block.type in ("data", "uri") and block.uri:
            return image_from_url(block.uri, block.media_type or "image/png")
        if block.type == "function_call":
            return read_call(block.call_id, block.name, block.arguments)
        return self._read_result(block) if block.type == "function_result" else make_opaque(block.to_dict())

    def _read_result(self, content: Content) -> Result:
        items = [self.read_block(item) for item in content.items or ()]
        parts = items or [read_text(content.result if isinstance(content.result, str) else repr(content.result))]
        if content.exception:
            parts.append(read_text(content.exception))
        return build_result(content.call_id or "", parts, bool(content.exception))

    def write_text(self, text: str, old: Any) -> Content:
        return Content.from_text(text)

    def write_call(self, call: Call, old: Any) -> Content:
        content: Content = copy(old)
        content.arguments = call.arguments
        return content

    def list_result_blocks(self, old: Content) -> Sequence[Any]:
        return old.items or ()

    def write_result(self, result: Result, text: str, media: list[Any], old: Any) -> Content:
        return Content.from_function_result(result.call_id, result=[Content.from_text(text), *media] if media else text)


class TidegateMiddleware(ChatMiddleware, SessionAccess):
    """Keeps the messages of an agent in a log and sends a view of them that fits the window.

    The settings are those of `AdapterSettings`.
    """

    def __init__(self, data: DataLocation = None, **settings: Unpack[AdapterSettings]) -> None:
        self._preparer = CallPreparer(AgentFrameworkFormat(), data, **settings)
        self.threads = self._preparer.threads
        self._place: ContextVar[ConversationPlace | None] = ContextVar("tidegate_place", default=None)

    def recall_tool(self) -> FunctionTool:
        """The tool with which the model reads what left the view."""

        async def recall(
            what: Annotated[str, "m12, m12..m40, or words"], offset: Annotated[int, "where to go on"] = 0
        ) -> str:
            return await self.threads.recall_at_async(self._place.get(), what, offset)

        return tool(recall, name="recall", description=RECALL_DESCRIPTION)

    async def process(self, context: ChatContext, call_next: Callable[[], Awaitable[None]]) -> None:
        host_messages = list(context.messages)
        fixed = next((n for n, message in enumerate(host_messages) if message.role != "system"), len(host_messages))
        thread = context.session.session_id if context.session else None
        name = self.threads.name("agent-framework", thread, old_name=thread or "")
        options = dict(context.options or {})

        async def ask(messages: list[FrameworkMessage]) -> ModelAnswer:
            answer = await context.client.get_response([*host_messages[:fixed], *messages], options=dict(options))
            return ModelAnswer(answer.text)

        texts = [str(options.get("instructions") or ""), *(message.text for message in host_messages[:fixed])]
        call = await self._preparer.prepare_async(
            name,
            host_messages[fixed:],
            model=str(options.get("model") or getattr(context.client, "model", "") or ""),
            fixed_part=FixedPart("\n\n".join(filter(None, texts)), tuple(map(_read_tool, options.get("tools") or ()))),
            ask=ask,
            max_output=_read_max_output(options),
            upstream=describe_upstream(context.client),
        )
        self._place.set(call.place)

        async def send(messages: list[FrameworkMessage]) -> None:
            context.messages = [*host_messages[:fixed], *messages]
            await call_next()
            if isinstance(context.result, ResponseStream):
                context.result = await _start_stream(context.result)

        call, _ = await call.send_async(send)

        async def record(response: ChatResponse[Any]) -> ChatResponse[Any]:
            await _record(call, response)
            return response

        if context.stream:
            context.stream_result_hooks.append(record)
        elif isinstance(context.result, ChatResponse):
            await record(context.result)


async def _start_stream(stream: ResponseStream[Any, Any]) -> ResponseStream[Any, Any]:
    """The same stream, after its first update: a refusal comes before it."""
    updates = aiter(stream)
    first = [update async for update in _take_one(updates)]

    async def go_on() -> AsyncIterator[Any]:
        for update in first:
            yield update
        async for update in updates:
            yield update

    return ResponseStream(go_on(), finalizer=lambda _: stream.get_final_response())


async def _take_one(updates: AsyncIterator[Any]) -> AsyncIterator[Any]:
    async for update in updates:
        yield update
        return


def _read_max_output(options: Mapping[str, Any]) -> int:
    limit = options.get("max_tokens")
    return limit if isinstance(limit, int) else 0


def _read_tool(tool: Any) -> Tool:
    schema = tool.parameters() if isinstance(tool, FunctionTool) else tool
    return Tool(str(getattr(tool, "name", "tool")), str(getattr(tool, "description", "")), encode_json_text(schema))


async def _record(call: PreparedCall[FrameworkMessage], response: ChatResponse[Any]) -> None:
    contents = [each for message in response.messages if message.role == "assistant" for each in message.contents]
    usage = response.usage_details or {}
    counts = (
        "input_token_count",
        "output_token_count",
        "cache_read_input_token_count",
        "cache_creation_input_token_count",
    )
    report = make_usage(*(usage.get(count) for count in counts))
    await call.record_async(FrameworkMessage("assistant", contents), report)
    await call.write_note_if_due_async(turn_ended=not any(each.type == "function_call" for each in contents))
