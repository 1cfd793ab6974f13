"""Strands: a conversation manager that leaves the messages of the agent alone and bounds what is sent.

    agent = Agent(model, conversation_manager=TidegateConversation(window=32_000), agent_id="build-fix")

A conversation manager of Strands normally shortens `agent.messages` itself, and only after a run or an overflow. This
one adds a middleware for the stage that invokes the model: only there the messages of one call can be replaced,
so `agent.messages` stays complete. The id of the agent's session manager is the name of the session, or the agent's id
if it has none. Agents with the same id may be of different users: one whose messages do not continue the session has
its own, and so has an agent without an id. If a provider refuses a request as too long, the view is shrunk and sent
again.
"""

import base64
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any, Unpack
from weakref import WeakKeyDictionary

from tidegate.core.messages import Call, Part, Result, Role, Tool
from tidegate.integrations.block_format import BlockFormat, build_result
from tidegate.integrations.content_blocks import read_text, read_thinking
from tidegate.integrations.host_messages import Copies
from tidegate.integrations.model_calls import AdapterSettings, CallPreparer, make_usage
from tidegate.integrations.provider_errors import describe_upstream
from tidegate.integrations.session_names import SessionName, make_random_id
from tidegate.integrations.threads import RECALL_DESCRIPTION, DataLocation, SessionAccess, describe_missing_framework
from tidegate.session.following import FixedPart
from tidegate.session.summaries.model_question import ModelAnswer
from tidegate.wire.parsing import decode_object, encode_json_text, image_from_base64, repair_unicode
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
_OUTPUT_NAMES = ("max_tokens", "max_completion_tokens", "max_output_tokens")


class StrandsFormat(BlockFormat[StrandsMessage]):
    """How messages of Strands are read and copied."""

    results_are_user = True

    def list_blocks(self, host: StrandsMessage) -> tuple[Role, Sequence[Any]]:
        return host["role"], host["content"]

    def copy_with(self, host: StrandsMessage, blocks: list[Any]) -> StrandsMessage:
        return {**host, "content": blocks}

    def create(self, role: Role, blocks: list[Any]) -> StrandsMessage:
        return {"role": "assistant" if role == "assistant" else "user", "content": blocks}

    def read_block(self, block: Any) -> Part:
        if "toolUse" in block:
            call = block["toolUse"]
            return Call(call["toolUseId"], call["name"], encode_json_text(call["input"]))
        if "toolResult" in block:
            result, parts = block["toolResult"], map(self.read_block, block["toolResult"]["content"])
            return build_result(result["toolUseId"], parts, result.get("status") == "error")
        if "reasoningContent" in block:
            reasoning = block["reasoningContent"]
            text = reasoning.get("reasoningText", {})
            is_signed = text.get("signature") or "redactedContent" in reasoning
            return read_thinking(text.get("text", ""), repair_unicode(repr(reasoning)) if is_signed else "")
        if "text" in block or "json" in block:
            return read_text(block["text"] if "text" in block else encode_json_text(block["json"]))
        kind, media = ("image", block["image"]) if "image" in block else ("application", block.get("document") or {})
        data = media.get("source", {}).get("bytes")
        if isinstance(data, bytes):
            return image_from_base64(base64.b64encode(data).decode(), f"{kind}/{media.get('format', 'png')}")
        return make_opaque(repr(block))

    def write_text(self, text: str, old: Any) -> Any:
        return {"text": text}

    def write_call(self, call: Call, old: Any) -> Any:
        return {"toolUse": {**old["toolUse"], "input": decode_object(call.arguments)}}

    def list_result_blocks(self, old: Any) -> Any:
        return old["toolResult"]["content"]

    def write_result(self, result: Result, text: str, media: list[Any], old: Any) -> Any:
        content = [{"text": text}, *media]
        status = "error" if result.error else "success"
        return {"toolResult": {"toolUseId": result.call_id, "status": status, "content": content}}


class TidegateConversation(ConversationManager, SessionAccess):
    """Keeps the messages of an agent in a log and sends a view of them that fits the window.

    `recall` adds a tool of that name, with which the model reads what left the view. The other settings are those of
    `AdapterSettings`.
    """

    def __init__(self, data: DataLocation = None, *, recall: bool = True, **settings: Unpack[AdapterSettings]) -> None:
        super().__init__()
        self._preparer = CallPreparer(StrandsFormat(), data, **settings)
        self.threads = self._preparer.threads
        self._recall = recall
        self._runs: WeakKeyDictionary[Any, str] = WeakKeyDictionary()  # by agent

    def register_hooks(self, registry: HookRegistry, **kwargs: Any) -> None:
        super().register_hooks(registry, **kwargs)
        registry.add_callback(AgentInitializedEvent, self._set_up)

    def apply_management(self, agent: Any, **kwargs: Any) -> None:
        """Leave the messages as they are: each call gets a view of them."""

    def reduce_context(self, agent: Any, e: Exception | None = None, **kwargs: Any) -> None:
        """Raise the provider's refusal: the middleware has shrunk the view as often as the policy allows."""
        if e is not None:
            raise e

    def _set_up(self, event: AgentInitializedEvent) -> None:
        agent: Any = event.agent
        agent.add_middleware(InvokeModelStage, self._invoke_model)
        if self._recall:

            @tool(name="recall", description=RECALL_DESCRIPTION)
            def recall(what: str, offset: int = 0) -> str:
                return self._preparer.recall(self._find_run(agent), what, offset)

            agent.tool_registry.process_tools([recall])

    def _name_session(self, agent: Any) -> SessionName:
        agent_id = agent.agent_id if agent.agent_id != _DEFAULT_ID else ""
        manager = agent._session_manager  # there is no public name for it
        thread = getattr(manager, "session_id", None)
        if thread:
            return self.threads.name("strands", thread, agent=agent_id, old_name=agent_id)
        return self.threads.name("strands", agent_id, is_shared=True, old_name=agent_id)

    def _find_run(self, agent: Any) -> str:
        return self._runs.setdefault(agent, make_random_id())

    async def _invoke_model(
        self, context: InvokeModelContext, next_stage: Callable[[InvokeModelContext], AsyncIterator[Any]]
    ) -> AsyncIterator[Any]:
        async def ask(messages: list[StrandsMessage]) -> ModelAnswer:
            # with the tools of the agent: the OpenAI model would send an empty list, which the provider refuses
            system = context.system_prompt
            events = context.model.stream(
                _join_question(messages), context.tool_specs, system if isinstance(system, str) else None
            )
            deltas = [event["contentBlockDelta"]["delta"] async for event in events if "contentBlockDelta" in event]
            return ModelAnswer("".join(delta.get("text", "") for delta in deltas))

        config = context.model.get_config()
        call = await self._preparer.prepare_async(
            self._name_session(context.agent),
            context.messages,
            model=str(config.get("model_id") or ""),
            fixed_part=_read_fixed_part(context),
            ask=ask,
            copies=Copies(context.agent.messages, lambda message: message),
            run=self._find_run(context.agent),
            max_output=_read_max_output(config),
            upstream=describe_upstream(context.model),
        )

        async def start(messages: list[StrandsMessage]) -> tuple[list[Any], AsyncIterator[Any]]:
            """The first events up to content, and the others. A refusal comes before content."""
            events, first_events = next_stage(context.replace(messages=messages)), list[Any]()
            async for event in events:
                first_events.append(event)
                if isinstance(event, ModelStopReason) or "data" in event or "delta" in event:
                    break
            return first_events, events

        call, (first_events, events) = await call.send_async(start)
        async for event in _chain(first_events, events):
            if isinstance(event, ModelStopReason):
                _, message, usage, _ = event["stop"]
                await call.record_async(message, _read_usage(usage))
                calls = [block for block in message["content"] if "toolUse" in block]
                await call.write_note_if_due_async(turn_ended=not calls)
            yield event


def _join_question(messages: list[StrandsMessage]) -> list[StrandsMessage]:
    """The messages with the question in the user's message before it: some providers want the sides to alternate."""
    *before, last, question = messages
    if last["role"] != "user":
        return messages
    return [*before, {**last, "content": [*last["content"], *question["content"]]}]


async def _chain(first: list[Any], rest: AsyncIterator[Any]) -> AsyncIterator[Any]:
    for event in first:
        yield event
    async for event in rest:
        yield event


def _read_max_output(config: Any) -> int:
    """The output limit of a model: most have it among the parameters of the provider, some as a setting of its own."""
    limits = [source.get(name) for source in (config.get("params") or {}, config) for name in _OUTPUT_NAMES]
    return next((each for each in limits if isinstance(each, int) and each > 0), 0)


def _read_fixed_part(context: InvokeModelContext) -> FixedPart:
    prompt = context.system_prompt
    blocks = [{"text": prompt}] if isinstance(prompt, str) else prompt or []
    tools = [
        Tool(spec["name"], spec["description"], encode_json_text(spec["inputSchema"])) for spec in context.tool_specs
    ]
    return FixedPart("\n".join(block["text"] for block in blocks if "text" in block), tuple(tools))


def _read_usage(usage: Any) -> dict[str, object]:
    read, cache_write = usage.get("cacheReadInputTokens"), usage.get("cacheWriteInputTokens")
    return make_usage(usage["inputTokens"], usage["outputTokens"], read, cache_write)
