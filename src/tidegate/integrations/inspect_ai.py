"""inspect_ai: a compaction strategy for `react` and other agents.

    react(tools=[...], compaction=TidegateCompaction(threshold=100_000))

inspect_ai calls a strategy only when the input exceeds the threshold, a number of tokens or a share of the context
window. Until then the messages are sent as they are and tidegate does not see them. At that moment all of them are
logged, and the view takes their place. inspect_ai adds the messages that follow to this view until the threshold is
reached again. So the log ends with the last compaction, and the usage of calls is not recorded. The messages of the
task state stay complete.

A session is named after the first message of the sample, or by `session` if there is only one. `recall_tool()` is a
tool for the agent.
"""

import asyncio
from collections.abc import Sequence
from contextvars import ContextVar
from typing import Any

from tidegate.core.messages import Call, Message, Part, Result, Text, Thinking, Tool, result_of, text_of
from tidegate.core.policy.policy import Policy
from tidegate.integrations.content_blocks import read_text
from tidegate.integrations.host_messages import (
    HostReader,
    MessagePiece,
    PartEdit,
    render_result_text,
    write_view,
)
from tidegate.integrations.threads import RECALL_DESCRIPTION, DataLocation, ThreadSessions, describe_missing_framework
from tidegate.session.following import FixedPart
from tidegate.session.session import Session
from tidegate.wire.parsing import build_tool_message, decode_object, encode_json_text, image_from_url, repair_unicode
from tidegate.wire.splicing.units import make_opaque

try:
    from inspect_ai.model import (
        ChatMessage,
        ChatMessageAssistant,
        ChatMessageSystem,
        ChatMessageTool,
        ChatMessageUser,
        CompactionStrategy,
        ContentImage,
        ContentReasoning,
        ContentText,
        Model,
    )
    from inspect_ai.tool import ToolDef, ToolInfo
except ImportError as missing:
    raise describe_missing_framework("inspect-ai", missing) from missing

_CALLS = 1_000_000
"""The place of the first tool call of an answer; smaller places are blocks of its content."""
_OWN = "tidegate"


class InspectFormat:
    """How messages of inspect_ai are read and copied. Copies keep the ids of their messages."""

    results_are_user = False

    def read(self, host: ChatMessage) -> list[MessagePiece]:
        blocks = [host.content] if isinstance(host.content, str) else host.content
        if isinstance(host, ChatMessageTool):
            parts = [_read_content(block) for block in blocks]
            if host.error is not None:
                parts.append(read_text(host.error.message))
            return [MessagePiece(build_tool_message(host.tool_call_id or "", parts, host.error is not None), (0,))]
        found: list[tuple[int, Part]] = [(place, _read_content(block)) for place, block in enumerate(blocks) if block]
        if isinstance(host, ChatMessageAssistant):
            found += [
                (_CALLS + number, Call(call.id, call.function, encode_json_text(call.arguments)))
                for number, call in enumerate(host.tool_calls or ())
            ]
        role = "assistant" if host.role == "assistant" else "user"
        message = Message(role, tuple(part for _, part in found))  # type: ignore[arg-type]
        return [MessagePiece(message, tuple(place for place, _ in found))]

    def rewrite(self, host: ChatMessage, edits: Sequence[PartEdit]) -> ChatMessage:
        if isinstance(host, ChatMessageTool):
            result = edits[0].part
            if not isinstance(result, Result):
                return host
            return host.model_copy(update={"content": _write_result(host, result), "error": None})
        blocks = [host.content] if isinstance(host.content, str) else host.content
        content = [_write_block(blocks, edit) for edit in edits if edit.place < _CALLS]
        texts = [each if isinstance(each, str) else getattr(each, "text", "") for each in content]
        plain = all(isinstance(each, str | ContentText) for each in content)
        update: dict[str, Any] = {"content": "\n\n".join(texts) if plain else content}
        if isinstance(host, ChatMessageAssistant):
            new = {edit.place - _CALLS: edit.part for edit in edits if edit.place >= _CALLS}
            calls = [(call, new[number]) for number, call in enumerate(host.tool_calls or ()) if number in new]
            update["tool_calls"] = [_write_call(call, part) for call, part in calls] or None
        return host.model_copy(update=update)

    def insert(self, message: Message) -> ChatMessage:
        result, mark = result_of(message), {_OWN: True}
        if result is not None:
            return ChatMessageTool(content=render_result_text(result), tool_call_id=result.call_id, metadata=mark)
        form = ChatMessageAssistant if message.role == "assistant" else ChatMessageUser
        return form(content=text_of(message), metadata=mark)


def _read_content(block: Any) -> Any:
    if isinstance(block, str):
        return read_text(block)
    if isinstance(block, ContentText):
        return read_text(block.text)
    if isinstance(block, ContentReasoning):
        signed = block.signature or block.redacted
        return Thinking(block=block.model_dump_json()) if signed else Thinking(repair_unicode(block.reasoning))
    if isinstance(block, ContentImage):
        return image_from_url(block.image)
    return make_opaque(block.model_dump(mode="json"))


def _write_block(blocks: Sequence[Any], edit: PartEdit) -> Any:
    if edit.part is None:
        return blocks[edit.place]
    return ContentText(text=edit.part.text if isinstance(edit.part, Text) else "")


def _write_result(host: ChatMessageTool, result: Result) -> Any:
    blocks = [host.content] if isinstance(host.content, str) else host.content
    media = [block for block in blocks if isinstance(block, ContentImage) and _read_content(block) in result.parts]
    text = render_result_text(result)
    return [ContentText(text=text), *media] if media else text


def _write_call(call: Any, part: Part | None) -> Any:
    if not isinstance(part, Call):
        return call
    return type(call)(**{**vars(call), "arguments": decode_object(part.arguments)})


class TidegateCompaction(CompactionStrategy):
    """Keeps the messages of a sample in a log and replaces them by a view when the threshold is reached.

    `threshold` and `memory` are those of inspect_ai. The other parameters are those of `ThreadSessions`; the window
    is the threshold, unless it is given.
    """

    def __init__(
        self,
        data: DataLocation = None,
        *,
        threshold: int | float = 0.9,
        memory: bool = True,
        model: str = "",
        window: int | None = None,
        policy: str | Policy = "default",
        session: str = "",
    ) -> None:
        super().__init__(type="edit", threshold=threshold, memory=memory)
        limit = int(threshold) if threshold > 1 else None
        self.threads = ThreadSessions(data, model=model, window=window or limit, policy=policy, session=session)
        self._originals: dict[str, dict[str, ChatMessage]] = {}
        self._name: ContextVar[str] = ContextVar("tidegate_session", default=session)

    def session(self, name: str) -> Session:
        """The session of this name, to explain and to recall."""
        return self.threads.session(name)

    def recall_tool(self) -> ToolDef:
        """The tool with which the model reads what left the view."""

        async def recall(what: str, offset: int = 0) -> str:
            name = self._name.get() or next(reversed(self._originals), "")
            return (
                await asyncio.to_thread(self.threads.recall, name, what, offset) if name else "Nothing left the view."
            )

        described = {"what": "m12, m12..m40, or words", "offset": "where to go on"}
        return ToolDef(recall, name="recall", description=RECALL_DESCRIPTION, parameters=described)

    async def compact(
        self, model: Model, messages: list[ChatMessage], tools: list[ToolInfo]
    ) -> tuple[list[ChatMessage], ChatMessageUser | None]:
        fixed = [message for message in messages if isinstance(message, ChatMessageSystem)]
        given = [message for message in messages if not isinstance(message, ChatMessageSystem)]
        name = self.threads.name_thread(given[0].id if given else "", "inspect-ai")
        self._name.set(name)
        known = self._originals.setdefault(name, {})
        before = len(known)
        for message in given:
            if not (message.metadata or {}).get(_OWN):
                known.setdefault(message.id or str(len(known)), message)
        declared = [Tool(tool.name, tool.description, tool.parameters.model_dump_json()) for tool in tools]
        fixed_part = FixedPart("\n\n".join(message.text for message in fixed), tuple(declared))
        hosts = list(known.values())
        shown = await asyncio.to_thread(self._prepare, name, hosts, model.name, fixed_part, len(known) == before)
        return [*fixed, *shown], None

    def _prepare(
        self, name: str, hosts: list[ChatMessage], model: str, fixed_part: FixedPart, is_repeated: bool
    ) -> list[ChatMessage]:
        following = self.threads.follow(name, model)
        items = HostReader(InspectFormat()).read(hosts)
        request = following.prepare(items, fixed_part=fixed_part)
        if request.is_unchanged or is_repeated:  # the framework counts more tokens than we do
            request = following.shrink(items)
        return write_view(InspectFormat(), hosts, request)
