"""OpenAI Agents: a filter for the input of each model call, and a session in our store.

    tidegate = TidegateFilter(window=32_000)
    config, session = RunConfig(call_model_input_filter=tidegate), tidegate.make_session("build-fix")
    result = await Runner.run(agent, "...", run_config=config, hooks=tidegate.hooks, session=session)

The filter alone is enough to bound the input. `hooks` records the usage of each call and its answer at once; without
it, an answer is recorded with the next call. `make_session` keeps the items of the conversation in the same log, so
that a new process continues it. `recall_tool()` is a tool for the agent. A filter does not see that a provider refuses
a request; `wrap_model(model)` is a model that sends one again, shorter, that was refused for its length.

The framework does not tell a filter which session a run has. A session of `make_session` tells it itself. Otherwise a
run continues the session whose messages it begins with, or has a new one: a handoff continues the same list and so the
same session; a nested run (`agent.as_tool`) begins with another message, and has a session of its own.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextvars import ContextVar
from dataclasses import dataclass, field
from threading import Lock
from typing import Any, NamedTuple, TypeVar, Unpack

from tidegate.core.message_key import hash_message
from tidegate.core.messages import Message, Tool, text_of
from tidegate.integrations.framework_notes import AskMessages, FrameworkNotes
from tidegate.integrations.item_session import ReadItems, TidegateSession
from tidegate.integrations.model_calls import make_usage
from tidegate.integrations.provider_errors import classify_exception, describe_upstream
from tidegate.integrations.session_names import SessionName, make_random_id
from tidegate.integrations.threads import (
    RECALL_DESCRIPTION,
    ConversationPlace,
    DataLocation,
    SessionAccess,
    SessionSettings,
    ThreadSessions,
    describe_missing_framework,
)
from tidegate.models.window_evidence import WindowKey
from tidegate.session.following import FixedPart, FollowedRequest, FollowingSession, HostItem
from tidegate.session.managed_request import ClientRequestReader
from tidegate.session.refusals import RefusalMemory
from tidegate.session.request_report import report_request
from tidegate.session.state_notes import WriteTask
from tidegate.session.summaries.model_question import ModelAnswer
from tidegate.wire.openai_responses.client_request import read_openai_responses
from tidegate.wire.parsing import encode_json_text
from tidegate.wire.splicing.units import HostUnit

try:
    import agents
    from agents.run_config import CallModelData, ModelInputData
except ImportError as missing:
    raise describe_missing_framework("openai-agents", missing) from missing

_Item = dict[str, Any]
_Items = str | list[_Item]
_T = TypeVar("_T")
_FRAMEWORK = "openai-agents"
_FIRST_EVENTS = ("response.created", "response.queued", "response.in_progress")


class _Run(NamedTuple):
    """A run with a session of `make_session`, and the keys of the messages of its last call."""

    name: SessionName
    keys: list[str]

    def has(self, items: list[HostItem[HostUnit]]) -> bool:
        """Whether a later call is of this run. A nested run, or the next run of the task, has other messages."""
        return len(items) > len(self.keys) and [item.key for item in items[: len(self.keys)]] == self.keys


def _begins_with(items: list[HostItem[HostUnit]], read: ReadItems) -> bool:
    """Whether a list begins with the items of a session. The framework leaves out a last answer without results."""
    keys = [hash_message(unit.message) for unit in read_openai_responses({"input": read.items}).units]
    return len(items) >= len(keys) and [item.key for item in items[: len(keys)]][:-1] == keys[:-1]


@dataclass
class _Call:
    """A call that is made now. `write` makes the items to send; `request` is another one after a refusal.

    `ask` sends items as those of the call, which are `items`: to have a state note written.
    """

    request: FollowedRequest[HostUnit]
    following: FollowingSession[HostUnit]
    place: ConversationPlace
    run: _Run | None
    window_key: WindowKey
    max_output: int
    write: Callable[[FollowedRequest[HostUnit]], list[_Item]]
    items: list[_Item] = field(default_factory=list)
    ask: AskMessages[_Item] | None = None


class TidegateFilter(SessionAccess):
    """Keeps the items of a run in a log and sends a view of them that fits the window.

    The settings are those of `AdapterSettings`.
    """

    def __init__(
        self, data: DataLocation = None, *, summarize: bool = False, **settings: Unpack[SessionSettings]
    ) -> None:
        self.threads = ThreadSessions(data, **settings)
        self._session = settings.get("session", "")
        self._summarize = summarize
        self._notes = FrameworkNotes(_insert)
        self._reader = ClientRequestReader()
        self._refusals = RefusalMemory()
        self._lock = Lock()
        # Each task of a program has its own: runs at the same time do not see those of each other.
        self._read: ContextVar[ReadItems | None] = ContextVar("tidegate_read", default=None)
        self._run: ContextVar[_Run | None] = ContextVar("tidegate_run", default=None)
        self._call: ContextVar[_Call | None] = ContextVar("tidegate_call", default=None)
        self._place: ContextVar[ConversationPlace | None] = ContextVar("tidegate_place", default=None)
        self.hooks = _RecordingHooks(self)

    def make_session(self, session_id: str = "") -> TidegateSession:
        """A session of the framework for one conversation: its items and its log are kept under this id.

        Without an id it is the session that the settings name, or a new one; `session_id` of the result is its id.
        """
        session_id = session_id or self._session or f"{_FRAMEWORK}-{make_random_id()}"
        return TidegateSession(session_id, self.threads, on_read=self._read.set)

    def recall_tool(self) -> agents.FunctionTool:
        """The tool with which the model reads what left the view."""

        async def recall(what: str, offset: int = 0) -> str:
            return await self.threads.recall_at_async(self._place.get(), what, offset)

        return agents.function_tool(recall, name_override="recall", description_override=RECALL_DESCRIPTION)

    def wrap_model(self, model: agents.Model) -> agents.Model:
        """A model that sends a request again, shorter, if the provider refuses it for its length."""
        return _RecoveringModel(model, self._send)

    async def _send(self, items: _Items, ask: Callable[[_Items], Awaitable[_T]]) -> _T:
        call, first_error = self._call.get(), None
        while True:
            try:
                return await ask(items)
            except Exception as error:  # noqa: BLE001 - it is raised again
                shorter = await asyncio.to_thread(self._shorten, call, error) if call else None
                failure = first_error or error
            if shorter is None:
                raise failure
            items = shorter
            first_error = failure if call and call.request.tried else None

    def _shorten(self, call: _Call, error: Exception) -> list[_Item] | None:
        refusal = classify_exception(error, call.request)
        request = self._refusals.answer(call.following, call.request, refusal, call.window_key, call.max_output)
        if request is None:
            return None
        call.request = request
        return call.write(request)

    async def __call__(self, data: CallModelData[Any]) -> ModelInputData:
        model_data, agent = data.model_data, data.agent
        tools = await agent.get_all_tools(agents.RunContextWrapper(data.context))
        name = agent.model if isinstance(agent.model, str) else getattr(agent.model, "model", "")
        fixed_part = FixedPart(model_data.instructions or "", tuple(map(_read_tool, tools)))

        async def ask(question: list[_Item]) -> ModelAnswer:
            model = agent.model
            if not isinstance(model, agents.Model):
                model = agents.MultiProvider().get_model(model)
            nothing: dict[str, Any] = {"previous_response_id": None, "conversation_id": None, "prompt": None}
            settings, quiet = agent.model_settings, agents.ModelTracing.DISABLED
            answer = await model.get_response(
                model_data.instructions, question, settings, tools, None, [], quiet, **nothing
            )
            texts = [agents.ItemHelpers.extract_text(item) or "" for item in answer.output if item.type == "message"]
            return ModelAnswer("".join(texts), _make_usage(answer))

        tokens = self._read.get(), self._run.get()
        self._read.set(None)
        key, max_output = (
            WindowKey("", describe_upstream(agent.model), str(name or "")),
            agent.model_settings.max_tokens,
        )
        items, call = await asyncio.to_thread(
            self._prepare, model_data.input, (key, max_output or 0), fixed_part, *tokens
        )
        call.ask, call.items = ask if self._summarize else None, items
        self._call.set(call)
        self._run.set(call.run)
        self._place.set(call.place)
        return ModelInputData(input=items, instructions=model_data.instructions)

    def _prepare(
        self,
        items: list[_Item],
        model_call: tuple[WindowKey, int],
        fixed_part: FixedPart,
        read_items: ReadItems | None,
        run: _Run | None,
    ) -> tuple[list[_Item], _Call]:
        with self._lock:  # agents that run in parallel may begin with the same message
            read, hosts, writer = self._reader.read_list([*items])
        if read_items is not None and _begins_with(hosts, read_items):
            run = _Run(read_items.name, [])
        elif run is not None and not run.has(hosts):
            run = None
        name = run.name if run else self._find_name(hosts)
        run = run and run._replace(keys=[item.key for item in hosts])
        key, max_output = model_call
        session, following = self.threads.follow_list(name, hosts, key.model)
        self._refusals.apply(following, key)
        self._notes.collect(session, following.session)
        request = following.prepare(hosts, fixed_part=fixed_part, max_output=max_output)
        report_request(following, request, session)

        def write(request: FollowedRequest[HostUnit]) -> list[_Item]:
            if request.is_unchanged:
                return items
            return [*items[: read.fixed_items], *writer.write(items, request.shown)]

        place = ConversationPlace(session, request.last_id)
        return write(request), _Call(request, following, place, run, key, max_output, write)

    def _find_name(self, items: list[HostItem[HostUnit]]) -> SessionName:
        """The name for a run without a session of `make_session`."""
        name = self.threads.name(_FRAMEWORK)
        if name.name and items:
            tree = self.threads.follow(name.name).tree
            if tree.tip and not tree.match([items[0].key]):  # a nested run: it begins with another message
                return self.threads.name(_FRAMEWORK, agent=items[0].key, is_shared=True)
        return name

    async def record(self, response: agents.ModelResponse) -> None:
        """Record an answer and its usage; `hooks` does this."""
        call = self._call.get()
        if call is None:
            return
        self._call.set(None)
        units = read_openai_responses({"input": response.to_input_items()}).units
        message = units[0].message if len(units) == 1 else None
        self._refusals.take_accepted(call.following, call.request, call.window_key, response.usage.input_tokens)
        await asyncio.to_thread(call.following.record_reply, call.request, message, _make_usage(response))
        if call.ask is not None:
            calls = [item for item in response.output if item.type == "function_call"]
            task = await asyncio.to_thread(self._take_note_task, call, not calls)
            if task is not None:
                self._notes.start(call.place.session, call.following.session, task, call.items, call.ask)

    def _take_note_task(self, call: _Call, turn_ended: bool) -> WriteTask | None:
        with self._lock:
            session, place = call.following.session, call.place
            return self._notes.take_task(place.session, session, place.last_id, turn_ended=turn_ended)


def _make_usage(response: agents.ModelResponse) -> dict[str, object]:
    usage = response.usage
    return make_usage(usage.input_tokens, usage.output_tokens, usage.input_tokens_details.cached_tokens or 0)


def _insert(message: Message) -> _Item:
    return {"role": "user", "content": text_of(message)}


class _RecoveringModel(agents.Model):
    """Sends requests with `send`, which sends a refused one again."""

    def __init__(self, model: agents.Model, send: Callable[..., Awaitable[Any]]) -> None:
        self._model = model
        self._send = send

    def __getattr__(self, name: str) -> Any:
        return getattr(self._model, name)

    async def close(self) -> None:
        await self._model.close()

    def get_retry_advice(self, request: Any) -> Any:
        return self._model.get_retry_advice(request)

    async def get_response(self, *arguments: Any, **keywords: Any) -> agents.ModelResponse:
        def ask(items: _Items) -> Awaitable[agents.ModelResponse]:
            return self._model.get_response(*_replace_input(items, arguments, keywords), **keywords)

        answer: agents.ModelResponse = await self._send(_read_input(arguments, keywords), ask)
        return answer

    async def stream_response(self, *arguments: Any, **keywords: Any) -> AsyncIterator[Any]:
        async def start(items: _Items) -> tuple[list[Any], AsyncIterator[Any]]:
            """The first events up to content, and the others. A refusal comes before content."""
            events, first_events = (
                self._model.stream_response(*_replace_input(items, arguments, keywords), **keywords),
                list[Any](),
            )
            async for event in events:
                first_events.append(event)
                if event.type not in _FIRST_EVENTS:
                    break
            return first_events, events

        first_events, events = await self._send(_read_input(arguments, keywords), start)
        for event in first_events:
            yield event
        async for event in events:
            yield event


def _read_input(arguments: tuple[Any, ...], keywords: dict[str, Any]) -> _Items:
    """The input of a model call, which the framework passes by its name or as the second argument."""
    items: _Items = keywords["input"] if "input" in keywords else arguments[1]
    return items


def _replace_input(items: _Items, arguments: tuple[Any, ...], keywords: dict[str, Any]) -> tuple[Any, ...]:
    if "input" in keywords:
        keywords["input"] = items
        return arguments
    return arguments[0], items, *arguments[2:]


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
