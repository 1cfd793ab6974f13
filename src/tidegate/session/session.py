"""A session: a log with its view, and the whole path from a message to a request.

    session = Session("gpt-4o", system="You are ...", tools=[...])
    session.add({"role": "user", "content": "..."})
    request = session.prepare()                  # fits the window, valid for the provider
    reply = client.chat.completions.create(**request.body)
    session.add(reply.choices[0].message)
    session.record(reply.usage)

`add` only appends to the log. All decisions are made in `prepare`, from the log alone: so a session that was closed and
opened again continues exactly where it was.
"""

import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, TypeVar

from tidegate.core.budget import Budget
from tidegate.core.config.token_amount import parse_token_amount
from tidegate.core.errors import BadInput, BadRequest, TooSmall
from tidegate.core.messages import Tool, calls_of
from tidegate.core.notes import ModelNote
from tidegate.core.plan import Decision
from tidegate.core.policy.policy import Moment, Policy, Rule
from tidegate.core.tokens.counting import TokenCounter, make_policy_meter
from tidegate.models.catalog import ModelInfo, find_model, find_window
from tidegate.models.pricing import compute_relative_prices
from tidegate.models.token_counters import create_counter
from tidegate.presets import load
from tidegate.session.conversation import GivenMessage, LiveConversation, LiveLog
from tidegate.session.explanation import Explanation
from tidegate.session.policy_runner import PolicyRunner, Recovery, SessionRules
from tidegate.session.recall import choose_whole_chars
from tidegate.session.request import Request
from tidegate.session.serial_calls import SerialCalls
from tidegate.session.state_notes import NoteModel, StateNotes
from tidegate.session.storage import SessionStorage
from tidegate.session.summaries.drivers import (
    AsyncSummarizer,
    Summarizer,
    SummarySteps,
    accept_summarise,
    add_focus,
    add_focus_async,
    run_steps,
    run_steps_async,
)
from tidegate.session.summaries.model_question import AskModel, CompactingModel
from tidegate.store.log import Log, MemoryLog
from tidegate.wire.registry import resolve_dialect
from tidegate.wire.request import RequestRenderer
from tidegate.wire.request_options import read_request_options

_T = TypeVar("_T")


class SessionParts(NamedTuple):
    """The objects that a session consists of: for the modules which are built on it, as `session/following.py`.

    Programs use the methods of the session. `note_model` notes in the log for which model requests are made. `calls`
    runs the calls of async code, one at a time.
    """

    live: LiveLog
    runner: PolicyRunner
    renderer: RequestRenderer
    note_model: Callable[[], None]
    calls: SerialCalls


class Session(LiveConversation):
    """A conversation that always fits the window of its model.

        session = Session("gpt-4o", system="You are ...", tools=[...])
        session.add({"role": "user", "content": "..."})
        request = session.prepare()
        reply = client.chat.completions.create(**request.body)
        session.add(reply.choices[0].message)
        session.record(reply.usage)

    The loop: `add` appends messages, `prepare` returns the next request, `record` takes the usage that the provider
    reported. `overflowed` returns a shorter request after the provider refused one as too long. `explain()` says what
    was done and why, `recall("m12")` returns a message that left the view.

    `history` has undo and redo, past requests and search, `rules` the rules of the user that are kept word for word,
    `recovery` what adapts the session to a provider's refusals.

    Parameters:

    - `model`: the name of the model. It selects the window, the token counter and the message format.
    - `policy`: the name of a preset, a policy file, or a `Policy`.
    - `window`: the context window in tokens, as 16000 or "16k". Without it, the policy or the model catalog decides.
    - `reserve`: the tokens of the window that are kept free for the answer.
    - `wire`: the message format, if the model's name does not tell it: "openai_chat", "openai_responses", "anthropic"
      or "gemini".
    - `system`, `tools`: the system prompt and the tool definitions, in any provider's format.
    - `count`: "auto", "exact", "estimate", "chars/4", or a token counter.
    - `max_tokens`: the output limit to ask for; 0 for that of the policy, if it has one. It is never above what the
      model can write, and the reserve is at least as large. If the reserve must be lowered, so is this.
    - `cache`: whether to set markers for the provider's prompt cache.
    - `request_options`: options of the provider, such as `{"temperature": 0}`, `{"tool_choice": "required"}` or
      `{"thinking": {...}}`. They are sent as they are with every request.
    - `log`: where to store the events; the default is in memory. `DataFolder.open` opens sessions on disk.
    - `clock`: returns the time in seconds.
    - `prices`: entries that override the model catalog.
    - `summarizer`: puts a question (`ModelQuestion`) to the model and returns the text of its answer. The model then
      writes state notes in the background. It may be sync or async; `tidegate.integrations.summarizers` has
      ready-made ones for the SDKs. Given as `("gpt-4o-mini", summarizer)`, it asks that model instead, such as a
      cheaper one, which gets the messages without thinking and with secrets masked.
    """

    def __init__(
        self,
        model: str = "",
        *,
        policy: str | Policy = "default",
        window: int | str | None = None,
        reserve: int | None = None,
        wire: str = "",
        system: str = "",
        tools: Sequence[Mapping[str, object] | Tool] = (),
        count: str | TokenCounter = "auto",
        max_tokens: int = 0,
        cache: bool = False,
        request_options: Mapping[str, object] | None = None,
        log: Log | SessionStorage | None = None,
        clock: Callable[[], float] = time.time,
        prices: Mapping[str, ModelInfo] | None = None,
        summarizer: AskModel | tuple[str, AskModel] | None = None,
    ) -> None:
        tokens = None if window is None else parse_token_amount(window)
        rules = (load(policy) if isinstance(policy, str) else policy).for_thread("main")  # unless it is named
        info, model_window = find_model(model, prices), find_window(model)
        output = max_tokens or rules.max_output
        if reserve is None:
            reserve = output if rules.max_output else max(rules.reserve, output)
        storage = log if isinstance(log, SessionStorage) else SessionStorage(MemoryLog() if log is None else log)
        super().__init__(
            storage.log,
            model=model,
            dialect=resolve_dialect(wire, model),
            counter=create_counter(model, count) if isinstance(count, str) else count,
            meter=make_policy_meter(rules.meter) if rules.meter else None,
            clock=clock,
            view=storage.snapshot,
        )
        self._runner = PolicyRunner(
            self._live,
            storage,
            policy=rules,
            window=tokens or rules.window or (rules.choose_window(model_window) if model_window else None),
            assumed_window=rules.choose_window(None),
            reserve=reserve,
            prices=compute_relative_prices(info.prices if info else ()),
            set_lifetime=info.cache_lifetime if info else None,
        )
        self._runner.cache_lifetime = self.dialect.read_cache_lifetime(request_options or {})
        options = read_request_options(request_options or {}, self.dialect)
        self._max_output = min(output, info.max_output) if info and info.max_output else output
        self._renderer = RequestRenderer(
            self.dialect, model=model, max_tokens=self._max_output, cache=cache, **options._asdict()
        )
        self._state_notes = StateNotes(self._runner, self._renderer)
        self._write_state_notes(summarizer)
        if system != self.view.system and (system or not self.view.head):
            self.set_system(system)
        if tools:
            self.set_tools(tools)
        if storage is log:
            self._limit_output()  # as it was when the session was left, so that opening it logs nothing
            self._note_model()

    def _write_state_notes(self, summarizer: AskModel | tuple[str, AskModel] | None) -> None:
        if summarizer is None:
            return
        model, ask = summarizer if isinstance(summarizer, tuple) else ("", summarizer)
        from tidegate.session.note_writer import NoteWriter  # noqa: PLC0415 - asyncio loads slowly

        other = self._describe_other_model(model) if model not in ("", self.model) else None
        NoteWriter(self, self._state_notes, ask, model=other)
        self._state_notes.compacts = isinstance(ask, CompactingModel) and other is None

    def _describe_other_model(self, model: str) -> NoteModel:
        """A model of the same provider is asked in the message format of the session."""
        from tidegate.core.text.secrets import SecretMask  # noqa: PLC0415 - it loads slowly

        is_same = resolve_dialect("", model) is resolve_dialect("", self.model)
        dialect = self.dialect if is_same else resolve_dialect("", model)
        info = find_model(model)
        return NoteModel(model, dialect, find_window(model), SecretMask(), (info and info.max_output) or 0)

    # --- what the model sees --------------------------------------------------------------------------------------

    def add(self, *messages: GivenMessage, typed: bool | None = None, key: str = "") -> list[str]:
        """Append messages, all or none. Return their ids. See `LiveConversation.add`."""
        ids = super().add(*messages, typed=typed, key=key)
        self._start_state_note()
        return ids

    async def add_async(self, *messages: GivenMessage, typed: bool | None = None, key: str = "") -> list[str]:
        """`add` for async code."""
        ids = await super().add_async(*messages, typed=typed, key=key)
        self._start_state_note()
        return ids

    def _start_state_note(self) -> None:
        """After an answer: have a state note written in the background, if one is due."""
        writer, items = self._state_notes.writer, self.view.items
        if writer is not None and items and items[-1].message.role == "assistant":
            writer.start_if_due(turn_ended=not calls_of(items[-1].message))

    @accept_summarise
    def prepare(self, summarize: Summarizer | None = None) -> Request:
        """Return the next request: it fits the window and is valid for the provider."""
        self.fit(summarize)
        return self.render_request()

    @accept_summarise
    async def prepare_async(self, summarize: AsyncSummarizer | None = None) -> Request:
        """`prepare` for async code."""
        await self._calls.read(self._live.refresh)
        await self._collect_async()
        return await self._run_async(self._render_after(self._runner.fit_steps()), summarize)

    async def _collect_async(self) -> None:
        if self._state_notes.writer is not None:
            await self._calls.run(self._state_notes.writer.collect)

    def _render_after(self, steps: SummarySteps[list[Decision]]) -> SummarySteps[Request]:
        yield from steps
        return self.render_request()

    @accept_summarise
    def fit(self, summarize: Summarizer | None = None) -> list[Decision]:
        """Make the next request fit: everything `prepare` does except rendering it."""
        self._live.refresh()
        if self._state_notes.writer is not None:
            self._state_notes.writer.collect()
        return run_steps(self._runner.fit_steps(), summarize, self._runner.note_summary_failure)

    @accept_summarise
    async def fit_async(self, summarize: AsyncSummarizer | None = None) -> list[Decision]:
        """`fit` for async code."""
        await self._calls.read(self._live.refresh)
        await self._collect_async()
        return await self._run_async(self._runner.fit_steps(), summarize)

    async def _run_async(self, steps: SummarySteps[_T], summarize: AsyncSummarizer | None) -> _T:
        return await run_steps_async(steps, summarize, self._runner.note_summary_failure, self._calls)

    @accept_summarise
    def overflowed(self, summarize: Summarizer | None = None) -> Request:
        """Shrink the view after the provider refused the last request as too long; at most twice per turn."""
        run_steps(self._runner.shrink_steps(), summarize, self._runner.note_summary_failure)
        return self.render_request()

    @accept_summarise
    async def overflowed_async(self, summarize: AsyncSummarizer | None = None) -> Request:
        """`overflowed` for async code."""
        return await self._run_async(self._render_after(self._runner.shrink_steps()), summarize)

    @accept_summarise
    def compact(self, summarize: Summarizer | None = None, *, focus: str = "") -> list[Decision]:
        """Compact on demand. `focus` is a topic that the summary should keep in detail.

        Without it, a model that writes state notes writes one first, and the view is swept to it.
        """
        writer = self._state_notes.writer
        if writer is not None and self._state_notes.writes_on_demand(focus, is_alone=summarize is None):
            writer.write_now_sync(focus)
            rule = None if focus.strip() else self._state_notes.make_manual_rule()
            decisions = self.run_rules([rule]) if rule is not None else []
            if any(decision.acted for decision in decisions):
                return decisions
        return run_steps(
            self._runner.rule_steps("manual"), add_focus(summarize, focus), self._runner.note_summary_failure
        )

    @accept_summarise
    async def compact_async(self, summarize: AsyncSummarizer | None = None, *, focus: str = "") -> list[Decision]:
        """`compact` for async code."""
        writer = self._state_notes.writer
        if writer is not None and self._state_notes.writes_on_demand(focus, is_alone=summarize is None):
            await writer.write_now(focus)
            rule = None if focus.strip() else self._state_notes.make_manual_rule()
            decisions = await self.run_rules_async([rule]) if rule is not None else []
            if any(decision.acted for decision in decisions):
                return decisions
        return await self._run_async(self._runner.rule_steps("manual"), add_focus_async(summarize, focus))

    @accept_summarise
    def run_rules(self, rules: Moment | Sequence[Rule], summarize: Summarizer | None = None) -> list[Decision]:
        """Run rules now: those of the policy for a moment, such as "turn_end" or "restore", or the rules given."""
        return run_steps(self._runner.rule_steps(rules), summarize, self._runner.note_summary_failure)

    @accept_summarise
    async def run_rules_async(
        self, rules: Moment | Sequence[Rule], summarize: AsyncSummarizer | None = None
    ) -> list[Decision]:
        """`run_rules` for async code."""
        return await self._run_async(self._runner.rule_steps(rules), summarize)

    def render_request(self) -> Request:
        """Render and validate the view as it is now. `prepare` makes it fit first."""
        self._limit_output()
        self._renderer.update(self.view)
        faults = self._renderer.faults()
        if faults and self._renderer.options.extra and not self._renderer.without_extra_options(self.view).faults():
            raise BadInput(
                f"The request options break a rule of {self.dialect.name}: {faults[0].text}",
                "Change request_options. The session is intact and nothing was sent.",
            )
        if faults:
            raise BadRequest(
                f"The request broke {len(faults)} rules of {self.dialect.name}: {faults[0].rule}: {faults[0].text}",
                "It was not sent and nothing was lost. This is a defect of tidegate; please report it.",
            )
        self._live.remember_request()
        if self._renderer.wants_thinking and not self._renderer.allows_thinking:
            self._report_left_out_thinking()
        self._shared_messages = self._renderer.shared
        self._birth = self._renderer.birth
        return Request(self._renderer, self.tokens, window=self.window, decisions=self._runner.last_decisions)

    def _limit_output(self) -> None:
        """Ask for no more output than there is room for, if the reserve was lowered. Thinking must fit into it."""
        reserve = self.budget.reserve
        limit = self._max_output
        if limit and reserve < self._runner.reserve:
            limit = max(1, min(limit, max(reserve, self._renderer.thinking_tokens + 1)))
        if self._renderer.set_output(limit) and self.view.model_note:
            self._note_model()

    def _lower_output(self, most: int) -> bool:
        if not self._renderer.lower_output(most):
            return False
        self._max_output = most
        self._note_model()
        return True

    def _report_left_out_thinking(self) -> None:
        why = "Thinking is left out of this request: the running tool loop no longer begins with its signed thinking."
        left_out = Decision("before_call", "", "thinking", True, why, self.view.tokens, self.view.tokens)
        if left_out not in self._runner.last_decisions:
            self._runner.last_decisions.append(left_out)

    def _note_model(self) -> None:
        """Note the model and the request options in the log, so that every request can be rendered again later."""
        options = self._renderer.options
        note = ModelNote(
            self.model,
            self.dialect.name,
            options.max_tokens,
            options.temperature,
            options.top_p,
            self.window or 0,
            options.cache_markers,
            options.extra,
        )
        if note.write_text() != self.view.model_note:
            self._live.append(note.pack())

    @property
    def parts(self) -> SessionParts:
        """The objects that the session consists of: for modules of tidegate, not for programs."""
        return SessionParts(self._live, self._runner, self._renderer, self._note_model, self._calls)

    # --- looking --------------------------------------------------------------------------------------------------

    @property
    def policy(self) -> Policy:
        """The policy that makes the view fit."""
        return self._runner.policy

    @property
    def window(self) -> int | None:
        """The context window in tokens, known or assumed; None if the policy assumes none for an unknown model.

        `recovery.set_window` changes it.
        """
        return self._runner.window

    @property
    def window_is_assumed(self) -> bool:
        """Whether the window of the model is not known, so that the policy's `unknown_window` takes its place."""
        return self._runner.known_window is None

    @property
    def budget(self) -> Budget:
        """How the window is divided: the reserve, the fixed part (system prompt, tools), and room for the history."""
        return self._runner.budget

    @property
    def whole_recall_chars(self) -> int:
        """The characters of one message that recall may return at once: about a quarter of the room."""
        try:
            return choose_whole_chars(self.budget.room)
        except TooSmall:
            return 0

    @property
    def tokens(self) -> int:
        """The size of the next request in the provider's tokens."""
        return self._runner.tokens

    @property
    def last_decisions(self) -> list[Decision]:
        """What each rule decided when the last request was prepared."""
        return list(self._runner.last_decisions)

    @property
    def edit_counts(self) -> Counter[str]:
        """How many edits each stage made since the session was opened."""
        return self._runner.edit_counts.copy()

    @property
    def rules(self) -> SessionRules:
        """The rules of the user that are kept word for word. Iterate over it to read them."""
        return SessionRules(self._runner, self.add)

    @property
    def state_notes(self) -> StateNotes:
        """The state notes that a model writes: when one is due, what to ask, and the newest one."""
        return self._state_notes

    @property
    def recovery(self) -> Recovery:
        """What to do after a provider refused a request or reported other limits."""
        return Recovery(self._runner, self._lower_output)

    def explain(self) -> Explanation:
        """Explain what is in the window, what the last request changed, and why."""
        return Explanation.build(
            self.view,
            self.budget,
            self.policy,
            self._runner.last_decisions,
            self._runner.edit_counts,
            self._live.clock(),
        )
