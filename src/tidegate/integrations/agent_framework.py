"""Microsoft Agent Framework: a chat middleware for an agent.

    agent = Agent(client, middleware=[TidegateMiddleware(window=32_000)])
    result = await agent.run("...", session=agent.create_session(session_id="build-fix"))

Each model call gets a view of the messages that fits the window; the framework's own list and the history of its
session are not changed. The id of the session is the name of ours. `recall_tool()` is a tool for the agent.

The framework's `compaction_strategy` is not used: it gets the list of messages and nothing else. It does not know the
session, the tools, the answer and its usage, and it works by marking the framework's own messages as excluded.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextvars import ContextVar
from copy import copy
from typing import Annotated, Any

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
from tidegate.wire.parsing import build_tool_message, encode_json_text, image_from_url, repair_unicode
from tidegate.wire.splicing.units import make_opaque

try:
    from agent_framework import ChatContext, ChatMiddleware, ChatResponse, Content, FunctionTool, tool
    from agent_framework import Message as FrameworkMessage
except ImportError as missing:
    raise describe_missing_framework("agent-framework", missing) from missing


class AgentFrameworkFormat:
    """How messages of the framework are read and copied."""

    results_are_user = False

    def read(self, host: FrameworkMessage) -> list[MessagePiece]:
        results = [n for n, content in enumerate(host.contents) if content.type == "function_result"]
        if results:
            return [MessagePiece(_read_result(host.contents[n]), (n,)) for n in results]
        parts = tuple(map(_read_content, host.contents))
        role = "assistant" if host.role == "assistant" else "user"
        return [MessagePiece(Message(role, parts), tuple(range(len(parts))))]  # type: ignore[arg-type]

    def rewrite(self, host: FrameworkMessage, edits: Sequence[PartEdit]) -> FrameworkMessage:
        contents = [_write_content(host.contents, edit) for edit in edits]
        if host.role != "assistant" and all(content.type == "text" for content in contents):
            contents = [Content.from_text("\n\n".join(content.text or "" for content in contents))]
        written = copy(host)
        written.contents = contents
        return written

    def insert(self, message: Message) -> FrameworkMessage:
        result = result_of(message)
        if result is not None:
            content = Content.from_function_result(result.call_id, result=render_result_text(result))
            return FrameworkMessage("tool", [content])
        return FrameworkMessage("assistant" if message.role == "assistant" else "user", [text_of(message)])


def _read_result(content: Content) -> Message:
    items = [_read_content(item) for item in content.items or ()]
    parts = items or [read_text(content.result if isinstance(content.result, str) else repr(content.result))]
    if content.exception:
        parts.append(read_text(content.exception))
    return build_tool_message(content.call_id or "", parts, bool(content.exception))


def _read_content(content: Content) -> Any:
    if content.type == "text":
        return read_text(content.text or "")
    if content.type == "text_reasoning":
        signed = content.protected_data or content.id
        return (
            Thinking(block=encode_json_text(content.to_dict()))
            if signed
            else Thinking(repair_unicode(content.text or ""))
        )
    if content.type in ("data", "uri") and content.uri:
        return image_from_url(content.uri, content.media_type or "image/png")
    if content.type == "function_call":
        given = content.arguments
        arguments = given if isinstance(given, str) else encode_json_text(dict(given or {}))
        return Call(content.call_id or "", content.name or "", repair_unicode(arguments))
    return make_opaque(content.to_dict())


def _write_content(contents: Sequence[Content], edit: PartEdit) -> Content:
    old, part = contents[edit.place] if edit.place >= 0 else None, edit.part
    if old is not None and part is None:
        return old
    if isinstance(part, Result):
        return _write_result(old, part)
    if isinstance(part, Call) and old is not None:
        written = copy(old)
        written.arguments = part.arguments
        return written
    return Content.from_text(part.text if isinstance(part, Text) else "")


def _write_result(old: Content | None, part: Result) -> Content:
    kept = [item for item in (old.items if old is not None else None) or () if _read_content(item) in part.parts]
    images = [item for item in kept if item.type != "text"]
    text = render_result_text(part)
    return Content.from_function_result(part.call_id, result=[Content.from_text(text), *images] if images else text)


class TidegateMiddleware(ChatMiddleware):
    """Keeps the messages of an agent in a log and sends a view of them that fits the window.

    The parameters are those of `ThreadSessions`. Without a session of the framework, `session` names ours.
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
        self.threads = ThreadSessions(data, model=model, window=window, reserve=reserve, policy=policy, session=session)
        self._preparer = CallPreparer(self.threads, AgentFrameworkFormat())
        self._name: ContextVar[str] = ContextVar("tidegate_session", default="agent-framework")

    def session(self, name: str) -> Session:
        """The session of this name, to explain and to recall."""
        return self.threads.session(name)

    def recall_tool(self) -> FunctionTool:
        """The tool with which the model reads what left the view."""

        async def recall(
            what: Annotated[str, "m12, m12..m40, or words"], offset: Annotated[int, "where to go on"] = 0
        ) -> str:
            return await asyncio.to_thread(self.threads.recall, self._name.get(), what, offset)

        return tool(recall, name="recall", description=RECALL_DESCRIPTION)

    async def process(self, context: ChatContext, call_next: Callable[[], Awaitable[None]]) -> None:
        given = list(context.messages)
        fixed = next((n for n, message in enumerate(given) if message.role != "system"), len(given))
        name = self.threads.name_thread(context.session and context.session.session_id, "agent-framework")
        self._name.set(name)
        options = dict(context.options or {})

        def prepare() -> PreparedCall[FrameworkMessage]:
            texts = [str(options.get("instructions") or ""), *(message.text for message in given[:fixed])]
            tools = tuple(map(_read_tool, options.get("tools") or ()))
            return self._preparer.prepare(
                name,
                given[fixed:],
                model=str(options.get("model") or getattr(context.client, "model", "") or ""),
                fixed_part=FixedPart("\n\n".join(filter(None, texts)), tools),
            )

        call = await asyncio.to_thread(prepare)
        context.messages = [*given[:fixed], *call.messages]

        async def record(response: ChatResponse[Any]) -> ChatResponse[Any]:
            await asyncio.to_thread(_record, call, response)
            return response

        if context.stream:
            context.stream_result_hooks.append(record)
        await call_next()
        if not context.stream and isinstance(context.result, ChatResponse):
            await record(context.result)


def _read_tool(given: Any) -> Tool:
    schema = given.parameters() if isinstance(given, FunctionTool) else given
    return Tool(str(getattr(given, "name", "tool")), str(getattr(given, "description", "")), encode_json_text(schema))


def _record(call: PreparedCall[FrameworkMessage], response: ChatResponse[Any]) -> None:
    parts: list[Part] = []
    for message in response.messages:
        if message.role == "assistant":
            parts += AgentFrameworkFormat().read(message)[0].message.parts
    usage = response.usage_details or {}
    report = make_usage(
        usage.get("input_token_count") or 0,
        usage.get("output_token_count") or 0,
        usage.get("cache_read_input_token_count") or 0,
        usage.get("cache_creation_input_token_count") or 0,
    )
    call.record(Message("assistant", tuple(parts)), report if usage.get("input_token_count") else None)
