"""pydantic-ai: a capability for an agent.

    agent = Agent(model, capabilities=[TidegateCapability(window=32_000)])
    result = agent.run_sync("...", conversation_id="build-fix")

Each model request gets a view of the messages that fits the window. The message history of the run is not changed:
`result.all_messages()` stays complete. The conversation id is the name of the session. An agent that another one runs
in a tool has a conversation of its own, and so a session of its own.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from tidegate.core.messages import Call, Image, Message, Part, Result, Text, Thinking, Tool, result_of, text_of
from tidegate.core.policy.policy import Policy
from tidegate.integrations.content_blocks import read_text
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
)
from tidegate.session.following import FixedPart
from tidegate.session.session import Session
from tidegate.wire.parsing import (
    build_tool_message,
    encode_json_text,
    image_from_base64,
    image_from_url,
    repair_unicode,
)
from tidegate.wire.splicing.units import make_opaque

try:
    from pydantic_ai import RunContext
    from pydantic_ai.capabilities import AbstractCapability
    from pydantic_ai.direct import model_request
    from pydantic_ai.messages import (
        BinaryContent,
        FileUrl,
        ModelMessage,
        ModelRequest,
        ModelResponse,
        RetryPromptPart,
        TextPart,
        ThinkingPart,
        ToolCallPart,
        ToolReturnPart,
        UserPromptPart,
    )
    from pydantic_ai.models import ModelRequestContext
    from pydantic_ai.toolsets import FunctionToolset
except ImportError as missing:
    raise describe_missing_framework("pydantic-ai", missing) from missing

_STEP = 10_000
"""Part n of a message has the places from n * _STEP on, one for each element of its content."""
_MAX_CALLS = 1_000


class PydanticAIFormat:
    """How messages of pydantic-ai are read and copied. System prompts and instructions stay where they are."""

    results_are_user = False

    def read(self, host: ModelMessage) -> list[MessagePiece]:
        if isinstance(host, ModelResponse):
            parts = tuple(map(_read_answer_part, host.parts))
            return [MessagePiece(Message("assistant", parts), tuple(n * _STEP for n in range(len(parts))))]
        found: list[MessagePiece] = []
        for number, part in enumerate(host.parts):
            if isinstance(part, ToolReturnPart):
                images = [_read_content(file) for file in part.files]
                parts = (read_text(part.model_response_str()), *images)
                message = build_tool_message(part.tool_call_id, parts, part.outcome != "success")
                found.append(MessagePiece(message, (number * _STEP,)))
            elif isinstance(part, RetryPromptPart):
                text = read_text(part.model_response())
                message = build_tool_message(part.tool_call_id, [text], True) if part.tool_name else _make_user([text])
                found.append(MessagePiece(message, (number * _STEP,)))
            elif isinstance(part, UserPromptPart):
                content = [part.content] if isinstance(part.content, str) else part.content
                read = [_read_content(each) for each in content]
                found.append(MessagePiece(_make_user(read), tuple(number * _STEP + n for n in range(len(read)))))
        return found

    def rewrite(self, host: ModelMessage, edits: Sequence[PartEdit]) -> ModelMessage:
        if isinstance(host, ModelResponse):
            return replace(host, parts=[_write_answer_part(host, edit) for edit in edits])
        return replace(host, parts=[*find_fixed_parts(host), *_write_request_parts(host, edits)])

    def insert(self, message: Message) -> ModelMessage:
        result = result_of(message)
        if result is not None:
            returned = ToolReturnPart(tool_name="tool", content=render_result_text(result), tool_call_id=result.call_id)
            return ModelRequest(parts=[returned])
        if message.role == "assistant":
            return ModelResponse(parts=[TextPart(text_of(message))])
        return ModelRequest(parts=[UserPromptPart(text_of(message))])


def find_fixed_parts(host: ModelMessage) -> list[Any]:
    """The parts of a request that no edit may leave out: system prompts, instructions, feedback of the framework."""
    if isinstance(host, ModelResponse):
        return []
    return [part for part in host.parts if not isinstance(part, ToolReturnPart | RetryPromptPart | UserPromptPart)]


def _make_user(parts: Sequence[Part]) -> Message:
    return Message("user", tuple(parts))


def _read_content(content: Any) -> Text | Image:
    if isinstance(content, str):
        return read_text(content)
    if isinstance(content, BinaryContent):
        return image_from_base64(content.base64, content.media_type)
    if isinstance(content, FileUrl):
        return image_from_url(content.url, content.media_type)
    text = getattr(content, "content", None)
    return read_text(text) if isinstance(text, str) else make_opaque(repr(content))


def _read_answer_part(part: Any) -> Part:
    if isinstance(part, TextPart):
        return read_text(part.content)
    if isinstance(part, ThinkingPart):
        signed = {"thinking": part.content, "signature": part.signature or "", "id": part.id or ""}
        return Thinking(block=encode_json_text(signed)) if part.signature else Thinking(repair_unicode(part.content))
    if isinstance(part, ToolCallPart):
        return Call(part.tool_call_id, part.tool_name, repair_unicode(part.args_as_json_str()))
    return make_opaque(repr(part))


def _write_answer_part(host: ModelResponse, edit: PartEdit) -> Any:
    old = host.parts[edit.place // _STEP] if edit.place >= 0 else None
    if edit.part is None:
        return old
    if isinstance(old, ToolCallPart) and isinstance(edit.part, Call):
        return replace(old, args=edit.part.arguments)
    text = edit.part.text if isinstance(edit.part, Text) else ""
    return replace(old, content=text) if isinstance(old, TextPart) else TextPart(text)


def _write_request_parts(host: ModelRequest, edits: Sequence[PartEdit]) -> list[Any]:
    """The parts of a request. Adjacent texts of the user become one prompt, because some servers want alternation."""
    found: list[Any] = []
    for edit in edits:
        number, element = divmod(edit.place, _STEP)
        old = host.parts[number] if edit.place >= 0 else UserPromptPart("")
        if not isinstance(old, UserPromptPart):
            found.append(_write_result(old, edit.part))
            continue
        content = [old.content] if isinstance(old.content, str) else old.content
        new = edit.part.text if isinstance(edit.part, Text) else content[element]
        last = found.pop() if found and isinstance(found[-1], UserPromptPart) else None
        before = [] if last is None else [last.content] if isinstance(last.content, str) else list(last.content)
        found.append(replace(old, content=[*before, new]))
    return [_simplify(part) if isinstance(part, UserPromptPart) else part for part in found]


def _simplify(prompt: UserPromptPart) -> UserPromptPart:
    texts = [each for each in prompt.content if isinstance(each, str)]
    return replace(prompt, content="\n\n".join(texts)) if len(texts) == len(prompt.content) else prompt


def _write_result(old: Any, part: Part | None) -> Any:
    if not isinstance(part, Result | Text):
        return old
    text = render_result_text(part) if isinstance(part, Result) else part.text
    kept = [
        file for file in getattr(old, "files", ()) if isinstance(part, Result) and _read_content(file) in part.parts
    ]
    return replace(old, content=[text, *kept] if kept else text)


class TidegateCapability(AbstractCapability[Any]):
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
        self.threads = ThreadSessions(data, model=model, window=window, reserve=reserve, policy=policy, session=session)
        self._preparer = CallPreparer(self.threads, PydanticAIFormat())
        self._calls: OrderedDict[object, PreparedCall[ModelMessage]] = OrderedDict()
        self._recall = recall
        self._summarize = summarize

    def session(self, conversation: str) -> Session:
        """The session of a conversation, to explain and to recall."""
        return self.threads.session(conversation)

    def get_toolset(self) -> FunctionToolset[Any] | None:
        if not self._recall:
            return None

        async def recall(ctx: RunContext[Any], what: str, offset: int = 0) -> str:
            return await asyncio.to_thread(self.threads.recall, self._name_session(ctx), what, offset)

        toolset: FunctionToolset[Any] = FunctionToolset()
        toolset.add_function(recall, takes_ctx=True, name="recall", description=RECALL_DESCRIPTION)
        return toolset

    def _name_session(self, ctx: RunContext[Any]) -> str:
        return self.threads.name_thread(ctx.conversation_id, str(ctx.run_id))

    async def before_model_request(
        self, ctx: RunContext[Any], request_context: ModelRequestContext
    ) -> ModelRequestContext:
        loop, model, given = asyncio.get_running_loop(), request_context.model, request_context.messages

        def ask(text: str) -> str:
            question = model_request(model, [ModelRequest(parts=[UserPromptPart(text)])])
            return asyncio.run_coroutine_threadsafe(question, loop).result().text or ""

        def prepare() -> PreparedCall[ModelMessage]:
            return self._preparer.prepare(
                self._name_session(ctx),
                given,
                model=model.model_name,
                fixed_part=_read_fixed_part(request_context),
                summarise=make_summarizer(ask) if self._summarize else None,
            )

        call = await asyncio.to_thread(prepare)
        self._calls[ctx.run_id] = call
        while len(self._calls) > _MAX_CALLS:
            self._calls.popitem(last=False)
        if call.request.is_unchanged:
            return request_context
        return replace(request_context, messages=_add_fixed_parts(given, call.messages))

    async def after_model_request(
        self, ctx: RunContext[Any], *, request_context: ModelRequestContext, response: ModelResponse
    ) -> ModelResponse:
        call = self._calls.pop(ctx.run_id, None)
        if call is not None:
            usage = response.usage
            report = make_usage(
                usage.input_tokens, usage.output_tokens, usage.cache_read_tokens, usage.cache_write_tokens
            )
            message = PydanticAIFormat().read(response)[0].message
            await asyncio.to_thread(call.record, message, report if usage.input_tokens else None)
        return response


def _read_fixed_part(context: ModelRequestContext) -> FixedPart:
    asked = context.model_request_parameters
    texts = [part.content for part in asked.instruction_parts or ()]
    for message in context.messages:
        texts += [part.content for part in find_fixed_parts(message) if isinstance(getattr(part, "content", None), str)]
    tools = [
        Tool(tool.name, tool.description or "", encode_json_text(tool.parameters_json_schema))
        for tool in (*asked.function_tools, *asked.output_tools)
    ]
    return FixedPart("\n\n".join(texts), tuple(tools))


def _add_fixed_parts(given: Sequence[ModelMessage], shown: list[ModelMessage]) -> list[ModelMessage]:
    """The view with the system prompts of messages that left it."""
    there = {id(part) for message in shown for part in find_fixed_parts(message)}
    missing = [part for message in given for part in find_fixed_parts(message) if id(part) not in there]
    return [ModelRequest(parts=missing), *shown] if missing else shown
