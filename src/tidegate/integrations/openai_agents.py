"""OpenAI Agents: a filter for the input of each model call, and a session in our store.

    tidegate = TidegateFilter(session="build-fix", window=32_000)
    config = RunConfig(call_model_input_filter=tidegate)
    result = await Runner.run(agent, "...", run_config=config, hooks=tidegate.hooks, session=tidegate.make_session())

The filter alone is enough to bound the input. `hooks` records the usage of each call and its answer at once; without
it, an answer is recorded with the next call. `make_session` keeps the items of the conversation in the same log, so
that a new process continues it. `recall_tool()` is a tool for the agent.

A handoff continues the same list and so the same session. A nested run (`agent.as_tool`) begins with another message,
and has a session of its own.
"""

import asyncio
from contextvars import ContextVar
from threading import Lock
from typing import Any, NamedTuple, Unpack

from tidegate.core.messages import Tool
from tidegate.integrations.item_session import TidegateSession
from tidegate.integrations.model_calls import make_usage
from tidegate.integrations.summaries import make_async_summarizer
from tidegate.integrations.threads import (
    RECALL_DESCRIPTION,
    DataLocation,
    SessionSettings,
    ThreadSessions,
    describe_missing_framework,
)
from tidegate.session.following import FixedPart, FollowedRequest, FollowingSession
from tidegate.session.managed_request import ClientRequestReader
from tidegate.session.session import Session
from tidegate.session.summaries.drivers import Summarizer
from tidegate.wire.parsing import encode_json_text
from tidegate.wire.splicing.units import HostUnit, read_openai_responses

try:
    import agents
    from agents.run_config import CallModelData, ModelInputData
except ImportError as missing:
    raise describe_missing_framework("openai-agents", missing) from missing

_Item = dict[str, Any]


class _Call(NamedTuple):
    name: str
    request: FollowedRequest[HostUnit]
    following: FollowingSession[HostUnit]


class TidegateFilter:
    """Keeps the items of a run in a log and sends a view of them that fits the window.

    The settings are those of `AdapterSettings`; `session` is the name of the session.
    """

    def __init__(
        self, data: DataLocation = None, *, summarize: bool = False, **settings: Unpack[SessionSettings]
    ) -> None:
        self.threads = ThreadSessions(data, **settings)
        self.name = settings.get("session") or "openai-agents"
        self._summarize = summarize
        self._reader = ClientRequestReader()
        self._lock = Lock()
        self._call: ContextVar[_Call | None] = ContextVar("tidegate_call", default=None)
        self.hooks = _RecordingHooks(self)

    def session(self, name: str = "") -> Session:
        """The session of this filter, to explain and to recall."""
        return self.threads.session(name or self.name)

    def make_session(self) -> TidegateSession:
        """A session of the framework whose items are kept in the log of this session."""
        return TidegateSession(self.name, self.threads)

    def recall_tool(self) -> agents.FunctionTool:
        """The tool with which the model reads what left the view."""

        async def recall(what: str, offset: int = 0) -> str:
            call = self._call.get()
            return await self.threads.recall_async(call.name if call else self.name, what, offset)

        return agents.function_tool(recall, name_override="recall", description_override=RECALL_DESCRIPTION)

    async def __call__(self, data: CallModelData[Any]) -> ModelInputData:
        given, agent = data.model_data, data.agent
        tools = await agent.get_all_tools(agents.RunContextWrapper(data.context))
        name = agent.model if isinstance(agent.model, str) else getattr(agent.model, "model", "")
        fixed_part = FixedPart(given.instructions or "", tuple(map(_read_tool, tools)))

        async def ask(text: str) -> str:
            model = agent.model
            if not isinstance(model, agents.Model):
                model = agents.MultiProvider().get_model(model)
            nothing: dict[str, Any] = {"previous_response_id": None, "conversation_id": None, "prompt": None}
            answer = await model.get_response(
                None, text, agents.ModelSettings(), [], None, [], agents.ModelTracing.DISABLED, **nothing
            )
            return "".join(
                agents.ItemHelpers.extract_text(item) or "" for item in answer.output if item.type == "message"
            )

        summarizer = make_async_summarizer(ask) if self._summarize else None
        items, call = await asyncio.to_thread(self._prepare, given.input, str(name or ""), fixed_part, summarizer)
        self._call.set(call)
        return ModelInputData(input=items, instructions=given.instructions)

    def _prepare(
        self, items: list[_Item], model: str, fixed_part: FixedPart, summarizer: Summarizer | None
    ) -> tuple[list[_Item], _Call]:
        with self._lock:  # agents that run in parallel may begin with the same message
            read, hosts, writer = self._reader.read_list([*items])
        name, following = self.name, self.threads.follow(self.name, model)
        tree = following.tree
        if tree.tip and hosts and not tree.match([hosts[0].key]):  # another run: it begins with another message
            name = self.threads.name_thread("", self.name, hosts[0].key)
            following = self.threads.follow(name, model)
        request = following.prepare(hosts, summarizer, fixed_part=fixed_part)
        if request.is_unchanged:
            return items, _Call(name, request, following)
        return [*items[: read.fixed_items], *writer.write(items, request.shown)], _Call(name, request, following)

    async def record(self, response: agents.ModelResponse) -> None:
        """Record an answer and its usage; `hooks` does this."""
        call = self._call.get()
        if call is None:
            return
        self._call.set(None)
        units = read_openai_responses({"input": response.to_input_items()}).units
        usage, details = response.usage, response.usage.input_tokens_details
        report = make_usage(usage.input_tokens, usage.output_tokens, details.cached_tokens or 0)
        message = units[0].message if len(units) == 1 else None
        await asyncio.to_thread(call.following.record_reply, call.request, message, report)


class _RecordingHooks(agents.RunHooks):
    def __init__(self, followed: TidegateFilter) -> None:
        self._followed = followed

    async def on_llm_end(
        self, context: agents.RunContextWrapper[Any], agent: Any, response: agents.ModelResponse
    ) -> None:
        await self._followed.record(response)


def _read_tool(tool: Any) -> Tool:
    schema = getattr(tool, "params_json_schema", None)
    return Tool(tool.name, getattr(tool, "description", "") or "", encode_json_text(schema or {}))
