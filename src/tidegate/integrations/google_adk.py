"""Google ADK: a plugin for an app.

    app = App(name="app", root_agent=agent, plugins=[TidegatePlugin(window=32_000)])

Each model call gets a view of the contents that fits the window. The events of the ADK session are not changed. The
name of the app, the id of the user and that of the ADK session are the name of ours, such as `app/alice@7`; a sub-agent
sees its own form of the conversation and has a session of its own, `app/alice@7.reader`. `recall_tool()` is a tool for
an agent.
"""

import asyncio
import base64
from collections.abc import Sequence
from typing import Any, Unpack

from tidegate.core.messages import Call, Part, Result, Role, Text, Tool
from tidegate.integrations.block_format import BlockFormat, build_result
from tidegate.integrations.content_blocks import read_text, read_thinking
from tidegate.integrations.host_messages import Copies
from tidegate.integrations.model_calls import AdapterSettings, CallPreparer, make_usage
from tidegate.integrations.provider_errors import describe_upstream
from tidegate.integrations.session_names import SessionName
from tidegate.integrations.threads import RECALL_DESCRIPTION, DataLocation, SessionAccess, describe_missing_framework
from tidegate.session.following import FixedPart
from tidegate.session.summaries.model_question import ModelAnswer
from tidegate.wire.parsing import decode_object, encode_json_text, image_from_base64
from tidegate.wire.splicing.units import make_opaque

try:
    from google.adk.agents.callback_context import CallbackContext
    from google.adk.models import LlmRequest, LlmResponse
    from google.adk.plugins.base_plugin import BasePlugin
    from google.adk.tools import FunctionTool, ToolContext
    from google.genai import types
except ImportError as missing:
    raise describe_missing_framework("google-adk", missing) from missing

_TEXT_PART = types.Part(text="")
"""It is copied for each text: to make a part, with its validation, takes three times as long."""


class AdkFormat(BlockFormat[types.Content]):
    """How contents of Gemini's API are read and copied."""

    results_are_user = True

    def list_blocks(self, host: types.Content) -> tuple[Role, Sequence[Any]]:
        return "assistant" if host.role == "model" else "user", host.parts or []

    def copy_with(self, host: types.Content, blocks: list[Any]) -> types.Content:
        return host.model_copy(update={"parts": blocks})

    def create(self, role: Role, blocks: list[Any]) -> types.Content:
        return types.Content(role="model" if role == "assistant" else "user", parts=blocks)

    def read_block(self, block: types.Part) -> Part:
        signature = base64.b64encode(block.thought_signature or b"").decode()
        if block.function_response:
            return _read_response(block.function_response)
        if block.function_call:
            call = block.function_call
            return Call(call.id or "", call.name or "", encode_json_text(call.args or {}), signature)
        if block.thought:
            return read_thinking(block.text or "", signature)
        if block.text is not None:
            return Text(read_text(block.text).text, signature)
        if block.inline_data and block.inline_data.data:
            data = base64.b64encode(block.inline_data.data).decode()
            return image_from_base64(data, block.inline_data.mime_type or "image/png")
        return make_opaque(block.model_dump(mode="json", exclude_none=True))

    def write_text(self, text: str, old: Any) -> types.Part:
        return _TEXT_PART.model_copy(update={"text": text})

    def write_call(self, call: Call, old: Any) -> types.Part:
        new_call = old.function_call.model_copy(update={"args": decode_object(call.arguments)})
        return types.Part(**{**dict(old), "function_call": new_call})

    def write_result(self, result: Result, text: str, media: list[Any], old: Any) -> types.Part:
        before = old.function_response if old else types.FunctionResponse(id=result.call_id, name="tool")
        key = next(iter(before.response or {}), "output")
        response = {key if key in ("result", "output", "error") else "output": text}
        return types.Part(function_response=before.model_copy(update={"response": response}))


def _read_response(response: types.FunctionResponse) -> Result:
    fields = response.response or {}
    only = next(iter(fields.values())) if len(fields) == 1 else None
    text = only if isinstance(only, str) else encode_json_text(fields)
    return build_result(response.id or "", [read_text(text)], "error" in fields)


def list_fields(content: types.Content) -> list[object]:
    """What is read of a content. Comparing the models themselves takes four times as long."""
    fields: list[object] = [content.role]
    for part in content.parts or ():
        call, response = part.function_call, part.function_response
        if response:
            fields.append((response.id, response.response))
        elif call:
            fields.append((call.id, call.name, call.args, part.thought_signature))
        else:
            fields.append(vars(part).copy())
    return fields


class TidegatePlugin(BasePlugin, SessionAccess):
    """Keeps the contents of an agent in a log and sends a view of them that fits the window.

    The settings are those of `AdapterSettings`.
    """

    def __init__(self, data: DataLocation = None, **settings: Unpack[AdapterSettings]) -> None:
        super().__init__(name="tidegate")
        self._preparer = CallPreparer(AdkFormat(), data, **settings)
        self.threads = self._preparer.threads

    def recall_tool(self) -> FunctionTool:
        """The tool with which the model reads what left the view."""

        async def recall(what: str, tool_context: ToolContext, offset: int = 0) -> str:
            run = tool_context.invocation_id, self._name_session(tool_context)
            return await self._preparer.recall_async(run, what, offset)

        recall.__doc__ = RECALL_DESCRIPTION
        return FunctionTool(recall)

    def _name_session(self, context: Any) -> SessionName:
        session, root = context.session, context.get_invocation_context().agent.root_agent.name
        agent = "" if context.agent_name == root else context.agent_name
        return self.threads.name(
            "google-adk",
            session.id,
            user=session.user_id,
            application=session.app_name,
            agent=agent,
            old_name=f"{session.id}.{agent}" if agent else session.id,
        )

    async def before_model_callback(self, *, callback_context: CallbackContext, llm_request: LlmRequest) -> None:
        agent: Any = callback_context.get_invocation_context().agent

        async def ask(contents: list[types.Content]) -> ModelAnswer:
            question = llm_request.model_copy(update={"contents": _join_question(contents)})
            answer = [answer async for answer in agent.canonical_model.generate_content_async(question)][-1]
            parts = (answer.content and answer.content.parts) or ()
            return ModelAnswer("".join(part.text or "" for part in parts), _make_usage(answer))

        name = self._name_session(callback_context)
        call = await self._preparer.prepare_async(
            name,
            llm_request.contents,
            model=llm_request.model or "",
            fixed_part=FixedPart(_read_system(llm_request.config), _read_tools(llm_request.config)),
            ask=ask,
            copies=Copies(callback_context.session.events, list_fields),
            run=(callback_context.invocation_id, name),
            max_output=llm_request.config.max_output_tokens or 0,
            upstream=describe_upstream(agent.canonical_model),
        )
        self._preparer.hold((callback_context.invocation_id, name), call)
        llm_request.contents = call.messages

    async def on_model_error_callback(
        self, *, callback_context: CallbackContext, llm_request: LlmRequest, error: Exception
    ) -> LlmResponse | None:
        """Ask again with fewer contents after a refusal for length. The answer is then not streamed.

        None: the framework raises the error with which it came here.
        """
        key = callback_context.invocation_id, self._name_session(callback_context)
        earlier_call = self._preparer.take(key)
        shorter = await asyncio.to_thread(earlier_call.answer_refusal, error) if earlier_call else None
        if shorter is None:
            return None
        agent: Any = callback_context.get_invocation_context().agent

        async def ask(contents: list[types.Content]) -> LlmResponse:
            llm_request.contents = contents
            return [answer async for answer in agent.canonical_model.generate_content_async(llm_request)][-1]

        try:
            call, answer = await shorter.send_async(ask)
        except Exception as failure:
            if failure is error:
                return None
            raise
        self._preparer.hold(key, call)
        return answer

    async def after_model_callback(self, *, callback_context: CallbackContext, llm_response: LlmResponse) -> None:
        if llm_response.partial or llm_response.content is None:
            return
        call = self._preparer.take((callback_context.invocation_id, self._name_session(callback_context)))
        if call is not None and llm_response.usage_metadata is not None:
            # The answer itself is logged with the next call: ADK gives its calls their ids only after this callback.
            await call.record_async(None, _make_usage(llm_response))
            parts = llm_response.content.parts or ()
            await call.write_note_if_due_async(turn_ended=not any(part.function_call for part in parts))


def _join_question(contents: list[types.Content]) -> list[types.Content]:
    """The contents with the question in the user's content before it: the provider wants the sides to alternate."""
    *before, last, question = contents
    if last.role != "user":
        return contents
    return [*before, last.model_copy(update={"parts": [*(last.parts or ()), *(question.parts or ())]})]


def _make_usage(response: LlmResponse) -> dict[str, object]:
    usage_metadata = response.usage_metadata
    if usage_metadata is None:
        return {}
    return make_usage(
        usage_metadata.prompt_token_count,
        usage_metadata.candidates_token_count,
        usage_metadata.cached_content_token_count,
    )


def _read_system(config: types.GenerateContentConfig) -> str:
    system_instruction = config.system_instruction
    return (
        system_instruction
        if isinstance(system_instruction, str)
        else encode_json_text(str(system_instruction))
        if system_instruction
        else ""
    )


def _read_tools(config: types.GenerateContentConfig) -> tuple[Tool, ...]:
    declared = [each for tool in config.tools or () for each in getattr(tool, "function_declarations", None) or ()]
    return tuple(
        Tool(each.name or "", each.description or "", each.model_dump_json(exclude_none=True, include={"parameters"}))
        for each in declared
    )
