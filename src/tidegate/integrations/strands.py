"""Strands: a conversation manager that leaves the messages of the agent alone and bounds what is sent.

    agent = Agent(model, conversation_manager=TidegateConversation(window=32_000), agent_id="build-fix")

A conversation manager of Strands normally shortens `agent.messages` itself, and only after a run or an overflow. This
one adds a middleware for the stage that invokes the model: only there the messages of one call can be replaced,
so `agent.messages` stays complete. The agent's id is the name of the session. If a provider refuses a request as too
long, the view is shrunk and Strands tries again.
"""

import asyncio
import base64
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any

from tidegate.core.messages import Call, Image, Message, Part, Result, Text, Thinking, Tool, result_of, text_of
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
from tidegate.wire.parsing import (
    build_tool_message,
    decode_object,
    encode_json_text,
    image_from_base64,
    repair_unicode,
)
from tidegate.wire.splicing.units import make_opaque

try:
    from strands import tool
    from strands.agent.conversation_manager import ConversationManager
    from strands.hooks import HookRegistry
    from strands.hooks.events import AgentInitializedEvent
    from strands.middleware.stages import InvokeModelContext, InvokeModelStage
    from strands.types.content import Message as StrandsMessage
    from strands.types.events import ModelStopReason
except ImportError as missing:
    raise describe_missing_framework("strands", missing) from missing

_DEFAULT_ID = "default"


class StrandsFormat:
    """How messages of Strands are read and copied."""

    results_are_user = True

    def read(self, host: StrandsMessage) -> list[MessagePiece]:
        content = host["content"]
        if host["role"] == "assistant":
            parts = tuple(map(_read_block, content))
            return [MessagePiece(Message("assistant", parts), tuple(range(len(parts))))]
        found = [
            MessagePiece(_read_result(block["toolResult"]), (place,))
            for place, block in enumerate(content)
            if "toolResult" in block
        ]
        rest = [(place, _read_block(block)) for place, block in enumerate(content) if "toolResult" not in block]
        if rest:
            message = Message("user", tuple(part for _, part in rest))
            found.append(MessagePiece(message, tuple(place for place, _ in rest)))
        return found

    def rewrite(self, host: StrandsMessage, edits: Sequence[PartEdit]) -> StrandsMessage:
        return {**host, "content": [_write_block(host["content"], edit) for edit in edits]}

    def insert(self, message: Message) -> StrandsMessage:
        result = result_of(message)
        if result is not None:
            return {"role": "user", "content": [{"toolResult": _write_result(None, result)}]}
        return {"role": "assistant" if message.role == "assistant" else "user", "content": [{"text": text_of(message)}]}


def _read_block(block: Any) -> Part:
    if "text" in block:
        return read_text(block["text"])
    if "toolUse" in block:
        call = block["toolUse"]
        return Call(call["toolUseId"], call["name"], encode_json_text(call["input"]))
    if "reasoningContent" in block:
        said = block["reasoningContent"].get("reasoningText", {})
        if said.get("signature") or "redactedContent" in block["reasoningContent"]:
            return Thinking(block=repair_unicode(repr(block["reasoningContent"])))
        return Thinking(repair_unicode(said.get("text", "")))
    return _read_media(block)


def _read_media(block: Any) -> Text | Image:
    if "text" in block:
        return read_text(block["text"])
    if "json" in block:
        return read_text(encode_json_text(block["json"]))
    media = block.get("image") or block.get("document") or {}
    data = media.get("source", {}).get("bytes")
    if isinstance(data, bytes):
        kind = "image" if "image" in block else "application"
        return image_from_base64(base64.b64encode(data).decode(), f"{kind}/{media.get('format', 'png')}")
    return make_opaque(repr(block))


def _read_result(result: Any) -> Message:
    return build_tool_message(
        result["toolUseId"], [_read_media(block) for block in result["content"]], result.get("status") == "error"
    )


def _write_block(content: Sequence[Any], edit: PartEdit) -> Any:
    old, part = content[edit.place] if edit.place >= 0 else None, edit.part
    if part is None:
        return old
    if isinstance(part, Result):
        return {"toolResult": _write_result(old, part)}
    if isinstance(part, Call) and old is not None:
        return {"toolUse": {**old["toolUse"], "input": decode_object(part.arguments)}}
    return {"text": part.text if isinstance(part, Text) else ""}


def _write_result(old: Any, result: Result) -> Any:
    before = old["toolResult"]["content"] if old else []
    media = [
        block for block in before if not isinstance(_read_media(block), Text) and _read_media(block) in result.parts
    ]
    content = [{"text": render_result_text(result)}, *media]
    return {"toolUseId": result.call_id, "status": "error" if result.error else "success", "content": content}


class TidegateConversation(ConversationManager):
    """Keeps the messages of an agent in a log and sends a view of them that fits the window.

    `recall` adds a tool of that name, with which the model reads what left the view. The other parameters are those of
    `ThreadSessions`. Without an `agent_id`, `session` names the session.
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
        recall: bool = True,
    ) -> None:
        super().__init__()
        self.threads = ThreadSessions(data, model=model, window=window, reserve=reserve, policy=policy, session=session)
        self._preparer = CallPreparer(self.threads, StrandsFormat())
        self._recall = recall

    def session(self, name: str) -> Session:
        """The session of this name, to explain and to recall."""
        return self.threads.session(name)

    def register_hooks(self, registry: HookRegistry, **kwargs: Any) -> None:
        super().register_hooks(registry, **kwargs)
        registry.add_callback(AgentInitializedEvent, self._set_up)

    def apply_management(self, agent: Any, **kwargs: Any) -> None:
        """Leave the messages as they are: each call gets a view of them."""

    def reduce_context(self, agent: Any, e: Exception | None = None, **kwargs: Any) -> None:
        """Shrink the view after a provider refused a request as too long. GiveUp after the policy's last attempt."""
        if e is not None:
            self.threads.session(self._name_session(agent)).recovery.shrink()

    def _set_up(self, event: AgentInitializedEvent) -> None:
        agent: Any = event.agent
        agent.add_middleware(InvokeModelStage, self._invoke_model)
        if self._recall:

            @tool(name="recall", description=RECALL_DESCRIPTION)
            def recall(what: str, offset: int = 0) -> str:
                return self.threads.recall(self._name_session(agent), what, offset)

            agent.tool_registry.process_tools([recall])

    def _name_session(self, agent: Any) -> str:
        given = agent.agent_id if agent.agent_id != _DEFAULT_ID else ""
        return self.threads.name_thread(given, "strands")

    async def _invoke_model(
        self, context: InvokeModelContext, next_stage: Callable[[InvokeModelContext], AsyncIterator[Any]]
    ) -> AsyncIterator[Any]:
        call = await asyncio.to_thread(self._prepare, context)
        async for event in next_stage(context.replace(messages=call.messages)):
            if isinstance(event, ModelStopReason):
                _, message, usage, _ = event["stop"]
                await asyncio.to_thread(_record, call, message, usage)
            yield event

    def _prepare(self, context: InvokeModelContext) -> PreparedCall[StrandsMessage]:
        prompt = context.system_prompt
        blocks = [{"text": prompt}] if isinstance(prompt, str) else prompt or []
        system = "\n".join(block["text"] for block in blocks if "text" in block)
        tools = [
            Tool(spec["name"], spec["description"], encode_json_text(spec["inputSchema"]))
            for spec in context.tool_specs
        ]
        model = context.model.get_config().get("model_id")
        return self._preparer.prepare(
            self._name_session(context.agent),
            context.messages,
            model=str(model or ""),
            fixed_part=FixedPart(system, tuple(tools)),
        )


def _record(call: PreparedCall[StrandsMessage], message: StrandsMessage, usage: Any) -> None:
    read, written = usage.get("cacheReadInputTokens", 0), usage.get("cacheWriteInputTokens", 0)
    report = make_usage(usage["inputTokens"], usage["outputTokens"], read, written)
    call.record(StrandsFormat().read(message)[0].message, report if usage["inputTokens"] else None)
