"""LangChain and LangGraph: a middleware for `create_agent`.

    agent = create_agent(model, tools, middleware=[TidegateMiddleware(window=32_000)], checkpointer=checkpointer)
    agent.invoke({"messages": [...]}, {"configurable": {"thread_id": "build-fix"}})

Each model call gets a view of the messages that fits the window. The state of the graph is not changed: it stays
complete, as the checkpointer saves it. The thread id is the name of the session in the data folder. A sub-agent that
runs inside a tool has a session of its own.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from tidegate.core.errors import BadInput
from tidegate.core.messages import Call, Message, Part, Result, Text, Tool, result_of, text_of
from tidegate.core.policy.policy import Policy
from tidegate.integrations.content_blocks import read_block, read_result_block
from tidegate.integrations.host_messages import MessagePiece, PartEdit, render_result_text
from tidegate.integrations.summaries import make_summarizer
from tidegate.integrations.threads import (
    RECALL_DESCRIPTION,
    CallPreparer,
    DataLocation,
    PreparedCall,
    ThreadSessions,
    describe_missing_framework,
    make_usage,
    name_part,
)
from tidegate.session.following import FixedPart
from tidegate.session.session import Session
from tidegate.wire.openai_chat import parse as openai_chat
from tidegate.wire.parsing import build_tool_message, decode_object, encode_json_text, repair_unicode

try:
    from langchain.agents.middleware import AgentMiddleware
    from langchain.agents.middleware.types import ModelRequest, ModelResponse
    from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, SystemMessage, ToolMessage
    from langchain_core.tools import BaseTool, StructuredTool
    from langchain_core.utils.function_calling import convert_to_openai_tool
    from langgraph.config import get_config
except ImportError as missing:
    raise describe_missing_framework("langchain", missing) from missing

_CALLS = 1_000_000
"""The place of the first tool call of an answer; smaller places are blocks of its content."""
_CALL_BLOCKS = frozenset({"tool_use", "tool_call", "function_call", "input_json_delta", "tool_call_chunk"})


class LangChainFormat:
    """How messages of LangChain are read and copied."""

    results_are_user = False

    def read(self, host: AnyMessage) -> list[MessagePiece]:
        if isinstance(host, ToolMessage):
            blocks = [host.content] if isinstance(host.content, str) else host.content
            parts = [read_result_block(block) for block in blocks]
            return [MessagePiece(build_tool_message(host.tool_call_id, parts, host.status == "error"), (0,))]
        listed = [host.content] if isinstance(host.content, str) else list(host.content)
        found: list[tuple[int, Part]] = [
            (place, read_block(block)) for place, block in enumerate(listed) if block and not _is_call_block(block)
        ]
        if isinstance(host, AIMessage):
            found += [(_CALLS + number, call) for number, call in enumerate(_read_calls(host))]
            role = "assistant"
        else:
            role = "system" if isinstance(host, SystemMessage) else "user"
        message = Message(role, tuple(part for _, part in found))  # type: ignore[arg-type]
        return [MessagePiece(message, tuple(place for place, _ in found))]

    def rewrite(self, host: AnyMessage, edits: Sequence[PartEdit]) -> AnyMessage:
        if isinstance(host, ToolMessage):
            return _rewrite_result(host, edits[0].part)
        listed = [host.content] if isinstance(host.content, str) else list(host.content)
        content = [_write_block(listed, edit) for edit in edits if edit.place < _CALLS]
        if isinstance(host, AIMessage):
            return _rewrite_answer(host, listed, content, [edit for edit in edits if edit.place >= _CALLS])
        return host.model_copy(update={"content": _simplify(host.content, content)})

    def insert(self, message: Message) -> AnyMessage:
        result = result_of(message)
        if result is not None:
            return ToolMessage(render_result_text(result), tool_call_id=result.call_id)
        return AIMessage(text_of(message)) if message.role == "assistant" else HumanMessage(text_of(message))


def _is_call_block(block: object) -> bool:
    return isinstance(block, dict) and block.get("type") in _CALL_BLOCKS


def _read_calls(host: AIMessage) -> list[Call]:
    calls = [
        Call(repair_unicode(str(call["id"] or "")), repair_unicode(call["name"]), encode_json_text(call["args"]))
        for call in host.tool_calls
    ]
    return calls + [
        Call(repair_unicode(str(call["id"] or "")), repair_unicode(call["name"] or ""), call["args"] or "")
        for call in host.invalid_tool_calls
    ]


def _write_block(listed: Sequence[Any], edit: PartEdit) -> Any:
    if edit.part is None:
        return listed[edit.place]
    text = edit.part.text if isinstance(edit.part, Text) else ""
    old = listed[edit.place] if edit.place >= 0 else None
    return {**old, "text": text} if isinstance(old, dict) else {"type": "text", "text": text}


def _simplify(old: object, content: list[Any]) -> Any:
    """The content as a text if it was one before."""
    if not isinstance(old, str):
        return content
    return "\n\n".join(block if isinstance(block, str) else block["text"] for block in content)


def _rewrite_result(host: ToolMessage, result: Part | None) -> ToolMessage:
    if not isinstance(result, Result):
        return host
    blocks = [host.content] if isinstance(host.content, str) else host.content
    kept = [block for block in blocks if read_result_block(block) in result.parts and not isinstance(block, str)]
    texts = [part.text for part in result.parts if isinstance(part, Text)]
    content: Any = render_result_text(result)
    if any(not isinstance(part, Text) for part in result.parts):
        images = [block for block in kept if not isinstance(read_result_block(block), Text)]
        content = [*({"type": "text", "text": text} for text in texts), *images]
    return host.model_copy(update={"content": content, "artifact": None})


def _rewrite_answer(host: AIMessage, listed: Sequence[Any], content: list[Any], calls: Sequence[PartEdit]) -> AIMessage:
    new = {edit.place - _CALLS: edit.part for edit in calls}
    changed = {part.id: decode_object(part.arguments) for part in new.values() if isinstance(part, Call)}
    kept = [call for number, call in enumerate(host.tool_calls) if number in new]
    kept_ids = {call["id"] for call in kept}
    blocks = [
        {**block, "input": changed[block["id"]]} if block.get("id") in changed and "input" in block else block
        for block in listed
        if _is_call_block(block) and (block.get("id") or block.get("call_id")) in kept_ids
    ]
    calls_now = [{**call, "args": changed.get(str(call["id"]), call["args"])} for call in kept]
    update: dict[str, Any] = {"content": _simplify(host.content, [*content, *blocks]), "tool_calls": calls_now}
    if changed or len(kept) < len(host.tool_calls):  # the provider's own copy of the calls, which would be sent instead
        update["additional_kwargs"] = {
            key: value for key, value in host.additional_kwargs.items() if key not in ("tool_calls", "function_call")
        }
    return host.model_copy(update=update)


class TidegateMiddleware(AgentMiddleware):
    """Keeps the messages of an agent in a log and sends a view of them that fits the window.

    `recall` adds a tool of that name, with which the model reads what left the view. With `summarize`, a policy that
    asks for summaries (such as "ai") gets them from the agent's own model. The other parameters are those of
    `ThreadSessions`.
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
        summarize: bool = False,
    ) -> None:
        super().__init__()
        self.threads = ThreadSessions(data, model=model, window=window, reserve=reserve, policy=policy, session=session)
        self._preparer = CallPreparer(self.threads, LangChainFormat())
        self._summarize = summarize
        self.tools: list[BaseTool] = [self._make_recall_tool()] if recall else []

    def session(self, thread: str) -> Session:
        """The session of a thread, to explain and to recall."""
        return self.threads.session(thread)

    def wrap_model_call(
        self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], ModelResponse[Any]]
    ) -> ModelResponse[Any]:
        call = self._prepare(request)
        response = handler(request.override(messages=call.messages))
        _record(call, response)
        return response

    async def awrap_model_call(
        self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], Awaitable[ModelResponse[Any]]]
    ) -> ModelResponse[Any]:
        call = await asyncio.to_thread(self._prepare, request)
        response = await handler(request.override(messages=call.messages))
        await asyncio.to_thread(_record, call, response)
        return response

    def _prepare(self, request: ModelRequest[Any]) -> PreparedCall[AnyMessage]:
        model = request.model
        name = getattr(model, "model_name", None) or getattr(model, "model", None)
        system = request.system_message
        fixed_part = FixedPart(str.__str__(system.text) if system else "", tuple(map(_read_tool, request.tools)))
        return self._preparer.prepare(
            self._name_session(),
            request.messages,
            model=name if isinstance(name, str) else "",
            fixed_part=fixed_part,
            summarise=make_summarizer(lambda text: str.__str__(model.invoke(text).text)) if self._summarize else None,
        )

    def _name_session(self) -> str:
        """The thread id; for a sub-agent also the place at which it was started."""
        given = get_config().get("configurable", {})
        thread = given.get("thread_id") or given.get("__pregel_task_id", "")
        above = str(given.get("checkpoint_ns", "")).rpartition("|")[0]
        name = self.threads.name_thread(thread, "langchain")
        return name_part(name, above) if above else name

    def _make_recall_tool(self) -> BaseTool:
        def recall(what: str, offset: int = 0) -> str:
            return self.threads.recall(self._name_session(), what, offset)

        return StructuredTool.from_function(recall, name="recall", description=RECALL_DESCRIPTION)


def _read_tool(tool: BaseTool | dict[str, Any]) -> Tool:
    """The definition of a tool, for its size. One that only the provider knows is counted by its JSON."""
    try:
        return openai_chat.read_tool(convert_to_openai_tool(tool))
    except (BadInput, ValueError):
        return Tool("tool", "", encode_json_text(tool) if isinstance(tool, dict) else "{}")


def _record(call: PreparedCall[AnyMessage], response: ModelResponse[Any]) -> None:
    answers = [message for message in response.result if isinstance(message, AIMessage)]
    if not answers:
        return
    usage = answers[0].usage_metadata
    details = (usage or {}).get("input_token_details", {})
    call.record(
        LangChainFormat().read(answers[0])[0].message,
        make_usage(
            usage["input_tokens"],
            usage["output_tokens"],
            details.get("cache_read") or 0,
            details.get("cache_creation") or 0,
        )
        if usage
        else None,
    )
