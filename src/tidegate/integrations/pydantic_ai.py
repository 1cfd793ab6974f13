"""pydantic-ai: a capability for an agent.

    agent = Agent(model, capabilities=[TidegateCapability(window=32_000)])
    result = agent.run_sync("...", conversation_id="build-fix")

Each model request gets a view of the messages that fits the window. The message history of the run is not changed:
`result.all_messages()` stays complete. The conversation id is the name of the session. The framework also takes it from
a given message history, which several runs may begin with: one that does not continue the session has its own. An agent
that another one runs in a tool has a conversation of its own, and so a session of its own.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from contextvars import ContextVar
from dataclasses import replace
from itertools import groupby
from typing import Any, NamedTuple, TypeVar, Unpack

from tidegate.core.messages import Call, Part, Result, Role, Tool
from tidegate.integrations.block_format import BlockFormat, build_result
from tidegate.integrations.content_blocks import list_content, read_call, read_text, read_thinking
from tidegate.integrations.model_calls import AdapterSettings, CallPreparer, make_usage
from tidegate.integrations.provider_errors import describe_upstream
from tidegate.integrations.session_names import SessionName
from tidegate.integrations.threads import RECALL_DESCRIPTION, DataLocation, SessionAccess, describe_missing_framework
from tidegate.session.following import FixedPart
from tidegate.session.summaries.model_question import ModelAnswer
from tidegate.wire.parsing import encode_json_text, image_from_base64, image_from_url
from tidegate.wire.splicing.units import make_opaque

try:
    from pydantic_ai import RunContext, messages
    from pydantic_ai.capabilities import AbstractCapability
    from pydantic_ai.messages import ModelMessage, ModelRequest, ModelResponse, TextPart, ToolReturnPart, UserPromptPart
    from pydantic_ai.models import Model, ModelRequestContext
    from pydantic_ai.models.wrapper import WrapperModel
    from pydantic_ai.toolsets import FunctionToolset
except ImportError as missing:
    raise describe_missing_framework("pydantic-ai", missing) from missing

_T = TypeVar("_T")


class PydanticAIFormat(BlockFormat[ModelMessage]):
    """How messages of pydantic-ai are read and copied. System prompts and instructions stay where they are.

    The blocks are the parts of a message, and in place of a prompt its elements.
    """

    def list_blocks(self, host: ModelMessage) -> tuple[Role, Sequence[Any]]:
        if isinstance(host, ModelResponse):
            return "assistant", host.parts
        blocks: list[Any] = []
        for part in host.parts:
            if isinstance(part, UserPromptPart):
                blocks += list_content(part.content)
            elif _is_result(part):
                blocks.append(part)
        return "user", blocks

    def copy_with(self, host: ModelMessage, blocks: list[Any]) -> ModelMessage:
        if isinstance(host, ModelResponse):
            return replace(host, parts=[TextPart(block) if isinstance(block, str) else block for block in blocks])
        return replace(host, parts=[*find_fixed_parts(host), *_make_request_parts(blocks)])

    def create(self, role: Role, blocks: list[Any]) -> ModelMessage:
        if role == "assistant":
            return ModelResponse(parts=[TextPart(block) for block in blocks])
        return ModelRequest(parts=_make_request_parts(blocks))

    def read_block(self, block: Any) -> Part:
        if isinstance(block, str | TextPart | messages.TextContent):
            return read_text(block if isinstance(block, str) else block.content)
        if isinstance(block, ToolReturnPart):
            parts = [read_text(block.model_response_str()), *map(self.read_block, block.files)]
            return build_result(block.tool_call_id, parts, block.outcome != "success")
        if isinstance(block, messages.RetryPromptPart):
            text = read_text(block.model_response())
            return build_result(block.tool_call_id, [text], True) if block.tool_name else text
        if isinstance(block, messages.ThinkingPart):
            signed = {"thinking": block.content, "signature": block.signature or "", "id": block.id or ""}
            return read_thinking(block.content, encode_json_text(signed) if block.signature else "")
        if isinstance(block, messages.ToolCallPart):
            return read_call(block.tool_call_id, block.tool_name, block.args_as_json_str())
        if isinstance(block, messages.BinaryContent):
            return image_from_base64(block.base64, block.media_type)
        if isinstance(block, messages.FileUrl):
            return image_from_url(block.url, block.media_type)
        return make_opaque(repr(block))

    def write_text(self, text: str, old: Any) -> Any:
        return replace(old, content=text) if isinstance(old, TextPart | messages.RetryPromptPart) else text

    def write_call(self, call: Call, old: Any) -> Any:
        return replace(old, args=call.arguments)

    def list_result_blocks(self, old: Any) -> Sequence[Any]:
        return getattr(old, "files", ())

    def write_result(self, result: Result, text: str, media: list[Any], old: Any) -> Any:
        if old is None:
            return ToolReturnPart(tool_name="tool", content=text, tool_call_id=result.call_id)
        return replace(old, content=[text, *media] if media else text)


def _is_result(part: Any) -> bool:
    return isinstance(part, ToolReturnPart | messages.RetryPromptPart)


def find_fixed_parts(host: ModelMessage) -> list[Any]:
    """The parts of a request that no edit may leave out: system prompts, instructions, feedback of the framework."""
    if isinstance(host, ModelResponse):
        return []
    return [part for part in host.parts if not _is_result(part) and not isinstance(part, UserPromptPart)]


def _make_request_parts(blocks: Sequence[Any]) -> list[Any]:
    """The parts of a request. Adjacent elements become one prompt, because some servers want alternation."""
    parts: list[Any] = []
    for is_result, group in groupby(blocks, _is_result):
        elements = list(group)
        is_plain = all(isinstance(each, str) for each in elements)
        parts += elements if is_result else [UserPromptPart("\n\n".join(elements) if is_plain else elements)]
    return parts


def _join_requests(history: Sequence[ModelMessage]) -> list[ModelMessage]:
    """Join adjacent requests, as the framework does with a history before it calls a model."""
    requests: list[ModelMessage] = []
    for each in history:
        last = requests[-1] if requests else None
        if isinstance(last, ModelRequest) and isinstance(each, ModelRequest):
            instructions = each.instructions or last.instructions
            requests[-1] = replace(last, parts=[*last.parts, *each.parts], instructions=instructions)
        else:
            requests.append(each)
    return requests


class _SentRequest(NamedTuple):
    """The request that a task makes now: its run, and what `find_fixed_parts` found for it."""

    run: str
    fixed_parts: list[Any]


class _RecoveringModel(WrapperModel):
    """Sends requests with `send`, which sends a refused one again."""

    def __init__(self, model: Model, send: Callable[..., Awaitable[Any]]) -> None:
        super().__init__(model)
        self._send = send

    async def request(self, messages: list[ModelMessage], *arguments: Any, **keywords: Any) -> ModelResponse:
        answer: ModelResponse = await self._send(
            messages, lambda requests: self.wrapped.request(_join_requests(requests), *arguments, **keywords)
        )
        return answer

    @asynccontextmanager
    async def request_stream(
        self, messages: list[ModelMessage], *arguments: Any, **keywords: Any
    ) -> AsyncIterator[Any]:
        async with AsyncExitStack() as stack:

            def start(messages_to_send: list[ModelMessage]) -> Awaitable[Any]:
                requests = _join_requests(messages_to_send)
                return stack.enter_async_context(self.wrapped.request_stream(requests, *arguments, **keywords))

            yield await self._send(messages, start)


class TidegateCapability(AbstractCapability[Any], SessionAccess):
    """Keeps the messages of an agent in a log and sends a view of them that fits the window.

    `recall` adds a tool of that name, with which the model reads what left the view. The other settings are those of
    `AdapterSettings`.
    """

    def __init__(self, data: DataLocation = None, *, recall: bool = True, **settings: Unpack[AdapterSettings]) -> None:
        self._preparer = CallPreparer(PydanticAIFormat(), data, **settings)
        self.threads = self._preparer.threads
        self._recall = recall
        self._sent: ContextVar[_SentRequest | None] = ContextVar("tidegate_sent", default=None)

    def get_toolset(self) -> FunctionToolset[Any] | None:
        if not self._recall:
            return None

        async def recall(ctx: RunContext[Any], what: str, offset: int = 0) -> str:
            return await self._preparer.recall_async(ctx.run_id, what, offset)

        toolset: FunctionToolset[Any] = FunctionToolset()
        toolset.add_function(recall, takes_ctx=True, name="recall", description=RECALL_DESCRIPTION)
        return toolset

    def _name_session(self, ctx: RunContext[Any]) -> SessionName:
        thread = ctx.conversation_id
        return self.threads.name("pydantic-ai", thread, is_shared=True, old_name=thread or "")

    async def before_model_request(
        self, ctx: RunContext[Any], request_context: ModelRequestContext
    ) -> ModelRequestContext:
        model, host_messages = request_context.model, request_context.messages

        name = self._name_session(ctx)
        parts = self._preparer.collect(name, host_messages, find_fixed_parts, ctx.run_id)

        async def ask(messages: list[ModelMessage]) -> ModelAnswer:
            settings, parameters = request_context.model_settings, request_context.model_request_parameters
            answer = await model.request(_add_fixed_parts(parts, messages), settings, parameters)
            return ModelAnswer(answer.text or "", _make_usage(answer))

        call = await self._preparer.prepare_async(
            name,
            host_messages,
            ask,
            model=model.model_name,
            fixed_part=_read_fixed_part(request_context, parts),
            run=ctx.run_id,
            max_output=(request_context.model_settings or {}).get("max_tokens") or 0,
            upstream=describe_upstream(model),
        )
        self._preparer.hold(ctx.run_id, call)
        self._sent.set(_SentRequest(ctx.run_id, parts))
        if call.request.is_unchanged:
            return request_context
        return replace(request_context, messages=_add_fixed_parts(parts, call.messages))

    def get_wrapper_model(self, model: Model) -> Model:
        return _RecoveringModel(model, self._send)

    async def _send(self, messages: list[ModelMessage], ask: Callable[[list[ModelMessage]], Awaitable[_T]]) -> _T:
        """Ask the model; again with fewer messages, as long as it refuses them for their length."""
        call_state = self._sent.get()
        prepared = self._preparer.take(call_state.run) if call_state else None
        if call_state is None or prepared is None:
            return await ask(messages)

        async def ask_with(view: list[ModelMessage]) -> _T:
            is_first = view is prepared.messages
            return await ask(messages if is_first else _add_fixed_parts(call_state.fixed_parts, view))

        call, answer = await prepared.send_async(ask_with)
        self._preparer.hold(call_state.run, call)
        return answer

    async def after_model_request(
        self, ctx: RunContext[Any], *, request_context: ModelRequestContext, response: ModelResponse
    ) -> ModelResponse:
        call = self._preparer.take(ctx.run_id)
        if call is not None:
            await call.record_async(response, _make_usage(response))
            await call.write_note_if_due_async(turn_ended=not response.tool_calls)
        return response


def _make_usage(response: ModelResponse) -> dict[str, object]:
    usage = response.usage
    return make_usage(usage.input_tokens, usage.output_tokens, usage.cache_read_tokens, usage.cache_write_tokens)


def _read_fixed_part(context: ModelRequestContext, fixed_parts: Sequence[Any]) -> FixedPart:
    model_request_parameters = context.model_request_parameters
    texts = [part.content for part in model_request_parameters.instruction_parts or ()]
    texts += [part.content for part in fixed_parts if isinstance(getattr(part, "content", None), str)]
    tools = [
        Tool(tool.name, tool.description or "", encode_json_text(tool.parameters_json_schema))
        for tool in (*model_request_parameters.function_tools, *model_request_parameters.output_tools)
    ]
    return FixedPart("\n\n".join(texts), tuple(tools))


def _add_fixed_parts(fixed_parts: Sequence[Any], view: list[ModelMessage]) -> list[ModelMessage]:
    """The view with the system prompts of messages that left it."""
    there = {id(part): part for message in view for part in message.parts}
    missing = [part for part in fixed_parts if id(part) not in there and part not in there.values()]
    return [ModelRequest(parts=missing), *view] if missing else view
