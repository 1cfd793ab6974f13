"""LangChain and LangGraph: a middleware for `create_agent`.

    agent = create_agent(model, tools, middleware=[TidegateMiddleware(window=32_000)], checkpointer=checkpointer)
    agent.invoke({"messages": [...]}, {"configurable": {"thread_id": "build-fix"}})

Each model call gets a view of the messages that fits the window. The state of the graph is not changed: it stays
complete, as the checkpointer saves it. The thread id is the name of the session in the data folder. An agent that is a
node of another graph, or runs inside a tool, has a session of its own, named after its place. Without a thread id, a
run continues the session whose messages it begins with, or has a new one. deepagents: see `is_deep_agent`.
"""

from collections.abc import Awaitable, Callable, Hashable, Sequence
from typing import Any, Unpack

from tidegate.core.errors import BadInput
from tidegate.core.messages import Call, Part, Result, Role, Tool
from tidegate.integrations.block_format import BlockFormat, build_result
from tidegate.integrations.content_blocks import list_content, read_block, read_call, read_result_block
from tidegate.integrations.model_calls import AdapterSettings, CallContext, CallPreparer, make_usage
from tidegate.integrations.provider_errors import describe_upstream
from tidegate.integrations.session_names import SessionName
from tidegate.integrations.threads import RECALL_DESCRIPTION, DataLocation, SessionAccess, describe_missing_framework
from tidegate.session.following import FixedPart
from tidegate.session.summaries.model_question import ModelAnswer
from tidegate.wire.openai_chat import parse as openai_chat
from tidegate.wire.parsing import decode_object, encode_json_text

try:
    from langchain.agents.middleware import AgentMiddleware
    from langchain.agents.middleware.types import ModelRequest, ModelResponse
    from langchain.tools import ToolRuntime
    from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, SystemMessage, ToolMessage
    from langchain_core.tools import BaseTool, StructuredTool
    from langchain_core.utils.function_calling import convert_to_openai_tool
    from langgraph.config import get_config
    from langgraph.runtime import get_runtime
except ImportError as missing:
    raise describe_missing_framework("langchain", missing) from missing

_CALL_LISTS = {"tool_call": "tool_calls", "invalid_tool_call": "invalid_tool_calls"}
"""The types of calls, and the lists in which an answer has them."""
_CALL_BLOCKS = frozenset({"tool_use", "tool_call", "function_call", "input_json_delta", "tool_call_chunk"})
"""The provider's own form of calls in the content of an answer."""

_OUTPUT_NAMES = ("max_tokens", "max_completion_tokens", "max_output_tokens", "num_predict")


class LangChainFormat(BlockFormat[AnyMessage]):
    """How messages of LangChain are read and copied. A result is a message; the calls of an answer are in lists."""

    def list_blocks(self, host: AnyMessage) -> tuple[Role, Sequence[Any]]:
        if isinstance(host, ToolMessage):
            return "tool", [host]
        blocks = [block for block in list_content(host.content) if block and _read_type(block) not in _CALL_BLOCKS]
        if isinstance(host, AIMessage):
            calls = [{**call, "type": kind} for kind, name in _CALL_LISTS.items() for call in getattr(host, name)]
            return "assistant", [*blocks, *calls]
        return "system" if isinstance(host, SystemMessage) else "user", blocks

    def read_block(self, block: Any) -> Part:
        if isinstance(block, ToolMessage):
            parts = map(read_result_block, list_content(block.content))
            return build_result(block.tool_call_id, parts, block.status == "error")
        if _read_type(block) not in _CALL_LISTS:
            return read_block(block)
        return read_call(block["id"], block["name"], block["args"] or ({} if block["type"] == "tool_call" else ""))

    def write_text(self, text: str, old: Any) -> Any:
        return {**old, "text": text} if isinstance(old, dict) else {"type": "text", "text": text}

    def write_call(self, call: Call, old: Any) -> Any:
        return {**old, "args": decode_object(call.arguments) if old["type"] == "tool_call" else call.arguments}

    def list_result_blocks(self, old: ToolMessage) -> Sequence[Any]:
        return list_content(old.content)

    def read_result_block(self, block: Any) -> Part:
        return read_result_block(block)

    def write_result(self, result: Result, text: str, media: list[Any], old: Any) -> Any:
        if old is None:
            return ToolMessage(text, tool_call_id=result.call_id)
        content = [{"type": "text", "text": text}, *media] if media else text
        return old.model_copy(update={"content": content, "artifact": None})

    def create(self, role: Role, blocks: list[Any]) -> AnyMessage:
        if role == "tool":
            return blocks[0]
        return AIMessage(blocks[0]["text"]) if role == "assistant" else HumanMessage(blocks[0]["text"])

    def copy_with(self, host: AnyMessage, blocks: list[Any]) -> AnyMessage:
        content = [block for block in blocks if _read_type(block) not in _CALL_LISTS]
        if not isinstance(host, AIMessage):
            return host.model_copy(update={"content": _simplify(host.content, content)})
        update: dict[str, Any] = {
            name: [block for block in blocks if _read_type(block) == kind] for kind, name in _CALL_LISTS.items()
        }
        arguments = {call["id"]: call["args"] for call in update["tool_calls"]}
        content += _write_call_blocks(list_content(host.content), arguments)
        if arguments != {call["id"]: call["args"] for call in host.tool_calls}:
            # the provider's own copy of the calls, which would be sent instead
            further = host.additional_kwargs.items()
            update["additional_kwargs"] = {k: v for k, v in further if k not in ("tool_calls", "function_call")}
        return host.model_copy(update={**update, "content": _simplify(host.content, content)})


def _read_type(block: object) -> object:
    return block.get("type") if isinstance(block, dict) else None


def _write_call_blocks(content: Sequence[Any], arguments: dict[Any, Any]) -> list[Any]:
    """The provider's own form of the calls that are left."""
    blocks = [block for block in content if _read_type(block) in _CALL_BLOCKS]
    candidates = [(block, block.get("id") or block.get("call_id")) for block in blocks]
    pairs = [(block, ident) for block, ident in candidates if ident in arguments]
    return [{**block, "input": arguments[ident]} if "input" in block else block for block, ident in pairs]


def _simplify(old: object, content: list[Any]) -> Any:
    """The content as a text if it was one before."""
    if not isinstance(old, str):
        return content
    return "\n\n".join(block if isinstance(block, str) else block["text"] for block in content)


class TidegateMiddleware(AgentMiddleware, SessionAccess):
    """Keeps the messages of an agent in a log and sends a view of them that fits the window.

    `recall` adds a tool of that name, with which the model reads what left the view. With `is_deep_agent` it takes the
    place of deepagents' own summarization, which has the same name: two programs that shorten one history would work
    against each other, and deepagents gives its default sub-agent only middleware that takes such a place. The other
    settings are those of `AdapterSettings`.
    """

    def __init__(
        self,
        data: DataLocation = None,
        *,
        recall: bool = True,
        is_deep_agent: bool = False,
        **settings: Unpack[AdapterSettings],
    ) -> None:
        super().__init__()
        self._is_deep_agent = is_deep_agent
        self._preparer = CallPreparer(LangChainFormat(), data, **settings)
        self.threads = self._preparer.threads
        self.tools: list[BaseTool] = []
        if recall:
            self.tools.append(StructuredTool.from_function(self._recall, name="recall", description=RECALL_DESCRIPTION))

    @property
    def name(self) -> str:
        return "SummarizationMiddleware" if self._is_deep_agent else super().name

    def wrap_model_call(
        self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], ModelResponse[Any]]
    ) -> ModelResponse[Any]:
        def ask(messages: list[AnyMessage]) -> ModelAnswer:
            return _read_text(handler(request.override(messages=messages)))

        name, run = self._find_conversation()
        call = self._preparer.prepare(name, request.messages, ask, **_read_context(request, run))
        call, response = call.send(lambda messages: handler(request.override(messages=messages)))
        call.record(*_read_answer(response))
        call.write_note_if_due(turn_ended=_ends_turn(response))
        return response

    async def awrap_model_call(
        self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], Awaitable[ModelResponse[Any]]]
    ) -> ModelResponse[Any]:
        async def ask(messages: list[AnyMessage]) -> ModelAnswer:
            return _read_text(await handler(request.override(messages=messages)))

        name, run = self._find_conversation()
        call = await self._preparer.prepare_async(name, request.messages, ask, **_read_context(request, run))
        call, response = await call.send_async(lambda messages: handler(request.override(messages=messages)))
        await call.record_async(*_read_answer(response))
        await call.write_note_if_due_async(turn_ended=_ends_turn(response))
        return response

    def _recall(self, what: str, runtime: ToolRuntime, offset: int = 0) -> str:
        name, run = self._find_conversation()
        self._preparer.resume(name, runtime.state["messages"], run)
        return self._preparer.recall(run, what, offset)

    def _find_conversation(self) -> tuple[SessionName, Hashable]:
        """The name of the session, and the run that makes the call.

        The namespace of a checkpoint is a path of nodes, each with an id that is another for each run of the node, such
        as "researcher:1f1e|model:2a3b". The nodes above this one are the place of a sub-agent.
        """
        configurable = get_config().get("configurable", {})
        above = str(configurable.get("checkpoint_ns", "")).rpartition("|")[0]
        place = "|".join(node.partition(":")[0] for node in above.split("|"))
        thread = configurable.get("thread_id")
        old_name = "" if place or thread is None else str(thread)
        name = self.threads.name("langchain", thread, agent=place, is_shared=bool(place), old_name=old_name)
        return name, (get_runtime().control, thread, above)


def _read_context(request: ModelRequest[Any], run: Hashable) -> CallContext[AnyMessage]:
    name = getattr(request.model, "model_name", None) or getattr(request.model, "model", None)
    system = str.__str__(request.system_message.text) if request.system_message else ""
    fixed_part = FixedPart(system, tuple(map(_read_tool, request.tools)))
    return {
        "model": name if isinstance(name, str) else "",
        "fixed_part": fixed_part,
        "run": run,
        "max_output": _read_max_output(request),
        "upstream": describe_upstream(request.model),
    }


def _read_max_output(request: ModelRequest[Any]) -> int:
    """The output limit of a call: that of its settings, else that of the model."""
    settings = [getattr(request, "model_settings", None) or {}, getattr(request.model, "model_kwargs", None) or {}]
    limits = [source.get(name) for source in settings for name in _OUTPUT_NAMES]
    limits += [getattr(request.model, name, None) for name in _OUTPUT_NAMES]
    return next((each for each in limits if isinstance(each, int) and each > 0), 0)


def _read_tool(tool: BaseTool | dict[str, Any]) -> Tool:
    """The definition of a tool, for its size. One that only the provider knows is counted by its JSON."""
    try:
        return openai_chat.read_tool(convert_to_openai_tool(tool))
    except (BadInput, ValueError):
        return Tool("tool", "", encode_json_text(tool) if isinstance(tool, dict) else "{}")


def _ends_turn(response: ModelResponse[Any]) -> bool:
    return not any(isinstance(message, AIMessage) and message.tool_calls for message in response.result)


def _read_text(response: ModelResponse[Any]) -> ModelAnswer:
    answer, usage = _read_answer(response)
    return ModelAnswer(str.__str__(answer.text) if answer else "", usage)


def _read_answer(response: ModelResponse[Any]) -> tuple[AIMessage | None, dict[str, object]]:
    answer = next((message for message in response.result if isinstance(message, AIMessage)), None)
    usage = answer.usage_metadata if answer else None
    if not usage:
        return answer, {}
    details = usage.get("input_token_details", {})
    counts = usage["input_tokens"], usage["output_tokens"], details.get("cache_read"), details.get("cache_creation")
    return answer, make_usage(*counts)
