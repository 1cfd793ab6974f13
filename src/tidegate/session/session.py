"""A session: a log with its view, and the whole path from a message to a request.

    session = Session("gpt-4o", system="You are ...", tools=[...])
    session.add({"role": "user", "content": "..."})
    request = session.prepare()                  # fits the window, valid for the provider
    reply = client.chat.completions.create(**request.body)
    session.add(reply.choices[0].message.model_dump())
    session.record(reply.usage.model_dump())

`add` only appends to the log. All decisions are made in `prepare`, from the log alone: so a session that was closed and
opened again continues exactly where it was.
"""

import time
from collections import Counter as Tally
from collections.abc import Callable, Iterator, Mapping, Sequence

import msgspec

from tidegate.core.budget import Budget, count_excess, make_budget, measure_request
from tidegate.core.edit_check import check_edits
from tidegate.core.edits import Insert
from tidegate.core.errors import BadEdit, BadInput, BadRequest, GiveUp
from tidegate.core.events import NoteAdded, ViewEdited
from tidegate.core.ledger.lines import LedgerLine
from tidegate.core.ledger.writer import PIN, held_rules, without_rule
from tidegate.core.messages import SUMMARY, Tool, user_message
from tidegate.core.outcome import Spill, SummaryRequest, make_spill
from tidegate.core.plan import AskSummary, CommitEdits, Decision, PlanContext, RunEffect, _token_change, run_moment
from tidegate.core.policy.policy import Moment, Policy, Rule
from tidegate.core.stages.summary import render_transcript
from tidegate.core.tokens.counting import TokenCounter, make_policy_meter
from tidegate.models.catalog import ModelInfo, find_model, find_window
from tidegate.models.pricing import compute_relative_prices
from tidegate.models.token_counters import create_counter
from tidegate.presets import load
from tidegate.session.conversation import LiveConversation
from tidegate.session.recovery import plan_image_removal
from tidegate.session.reports.explanation import Explanation
from tidegate.session.request import ModelNote, Request
from tidegate.session.storage import SessionStorage
from tidegate.session.summaries.answer_check import REJECTED_TOPIC, AnswerRejected, check_written_summary
from tidegate.session.summaries.drivers import (
    AsyncSummarizer,
    Summarizer,
    SummarySteps,
    add_focus,
    add_focus_async,
    run_steps,
    run_steps_async,
)
from tidegate.store.log import Log, MemoryLog
from tidegate.wire.parsing import repair_unicode
from tidegate.wire.registry import resolve_dialect
from tidegate.wire.rendering.request import RequestRenderer

_MAX_RECOVERIES = 2
_MAX_PIN_CHARS = 1_000


class Session(LiveConversation):
    """A conversation that always fits the window of its model.

        session = Session("gpt-4o", system="You are ...", tools=[...])
        session.add({"role": "user", "content": "..."})
        request = session.prepare()
        reply = client.chat.completions.create(**request.body)
        session.add(reply.choices[0].message.model_dump())
        session.record(reply.usage.model_dump())

    The loop: `add` appends messages, `prepare` returns the next request, `record` takes the usage that the provider
    reported. `overflowed` returns a shorter request after the provider refused one as too long. `explain()` says what
    was done and why, `recall("m12")` returns a message that left the view.

    `history` has undo and redo, past requests and search, `rules` the rules of the user that are kept word for word,
    `recovery` what adapts the session to a provider's refusals.

    Parameters:

    - `model`: the name of the model. It selects the window, the token counter and the message format.
    - `policy`: the name of a preset, a policy file, or a `Policy`.
    - `window`: the context window in tokens. Without it, the policy or the model catalog decides.
    - `reserve`: the tokens of the window that are kept free for the answer.
    - `wire`: the message format, if the model's name does not tell it: "openai_chat", "openai_responses", "anthropic"
      or "gemini".
    - `system`, `tools`: the system prompt and the tool definitions, in any provider's format.
    - `count`: "auto", "exact", "estimate", "chars/4", or a token counter.
    - `max_tokens`: the output limit to ask for.
    - `cache`: whether to set markers for the provider's prompt cache.
    - `log`: where to store the events; the default is in memory. `DataFolder.open` opens sessions on disk.
    - `clock`: returns the time in seconds.
    - `prices`: entries that override the model catalog.
    """

    def __init__(
        self,
        model: str = "",
        *,
        policy: str | Policy = "default",
        window: int | None = None,
        reserve: int | None = None,
        wire: str = "",
        system: str = "",
        tools: Sequence[Mapping[str, object] | Tool] = (),
        count: str | TokenCounter = "auto",
        max_tokens: int = 0,
        cache: bool = False,
        temperature: float | None = None,
        top_p: float | None = None,
        log: Log | SessionStorage | None = None,
        clock: Callable[[], float] = time.time,
        prices: Mapping[str, ModelInfo] | None = None,
    ) -> None:
        if window is not None and window <= 0:
            raise BadInput(f"The window is {window} tokens.", "Give a positive number, or none to ask the catalog.")
        self._policy = load(policy) if isinstance(policy, str) else policy
        self._window = window or self._policy.window or find_window(model) or self._policy.unknown_window
        self._reserve = self._policy.reserve if reserve is None else reserve
        storage = log if isinstance(log, SessionStorage) else SessionStorage(MemoryLog() if log is None else log)
        super().__init__(
            storage.log,
            model=model,
            dialect=resolve_dialect(wire, model),
            counter=create_counter(model, count) if isinstance(count, str) else count,
            meter=make_policy_meter(self._policy.meter) if self._policy.meter else None,
            clock=clock,
            view=storage.snapshot,
        )
        self._last_decisions: list[Decision] = []
        self._edit_counts: Tally[str] = Tally()
        self._effects = storage.effects
        self._mask = storage.mask
        self._fruitless_rules: set[tuple[str, int]] = set()
        self._renderer = RequestRenderer(
            self.dialect, model=model, max_tokens=max_tokens, cache=cache, temperature=temperature, top_p=top_p
        )
        self._compaction_start = self._summary_failure = ""
        known = find_model(model, prices)
        self._prices = compute_relative_prices(known.prices if known else ())
        self._budget: Budget | None = None
        self._budget_key: tuple[int | None, int, float] = (0, 0, 0.0)
        if system != self.view.system and (system or not self.view.head):
            self.set_system(system)
        if tools:
            self.set_tools(tools)
        if storage is log:
            self._note_model()

    # --- what the model sees --------------------------------------------------------------------------------------

    def prepare(self, summarise: Summarizer | None = None) -> Request:
        """Return the next request: it fits the window and is valid for the provider."""
        self.fit(summarise)
        return self.render_request()

    async def prepare_async(self, summarise: AsyncSummarizer | None = None) -> Request:
        """The same for async code."""
        await run_steps_async(self._fit_steps(), summarise, self._note_summary_failure)
        return self.render_request()

    def fit(self, summarise: Summarizer | None = None) -> list[Decision]:
        """Make the next request fit: everything `prepare` does except rendering it."""
        return run_steps(self._fit_steps(), summarise, self._note_summary_failure)

    def _fit_steps(self) -> SummarySteps[list[Decision]]:
        self._last_decisions = []
        self._refresh()
        for moment in self._due_moments():
            yield from self._run_moment(moment)
        for _ in range(_MAX_RECOVERIES):
            # If others write, too, the last edit may have been too late: run the guard again.
            if count_excess(self.view, self.budget):
                run_steps(self._run_moment("before_call"), None, self._note_summary_failure)
        self._remember_request()
        return self._last_decisions

    def overflowed(self, summarise: Summarizer | None = None) -> Request:
        """Shrink the view after the provider refused the last request as too long; at most twice per turn."""
        run_steps(self._shrink_steps(), summarise, self._note_summary_failure)
        return self.render_request()

    async def overflowed_async(self, summarise: AsyncSummarizer | None = None) -> Request:
        """The same for async code."""
        await run_steps_async(self._shrink_steps(), summarise, self._note_summary_failure)
        return self.render_request()

    def _shrink_steps(self) -> SummarySteps[list[Decision]]:
        tries = min(self.policy.recoveries, _MAX_RECOVERIES)
        if self.view.recoveries >= tries:
            raise GiveUp(
                f"The provider refused {tries + 1} requests of this turn for their length, the last at"
                f" {self.tokens:,} tokens by our count, window {self.window}.",
                "Set the model's true window, or start a new session; this one is whole and nothing was lost.",
            )
        self._last_decisions = []
        self._append(NoteAdded("overflow"))
        return (yield from self._run_moment("overflow"))

    def compact(self, summarise: Summarizer | None = None, *, focus: str = "") -> list[Decision]:
        """Compact on demand. `focus` is a topic that the summary should keep in detail."""
        return run_steps(self._run_moment("manual"), add_focus(summarise, focus), self._note_summary_failure)

    async def compact_async(self, summarise: AsyncSummarizer | None = None, *, focus: str = "") -> list[Decision]:
        """The same for async code."""
        return await run_steps_async(
            self._run_moment("manual"), add_focus_async(summarise, focus), self._note_summary_failure
        )

    def run_rules(self, rules: Moment | Sequence[Rule], summarise: Summarizer | None = None) -> list[Decision]:
        """Run rules now: those of the policy for a moment, such as "turn_end" or "restore", or the rules given."""
        return run_steps(self._rule_steps(rules), summarise, self._note_summary_failure)

    async def run_rules_async(
        self, rules: Moment | Sequence[Rule], summarise: AsyncSummarizer | None = None
    ) -> list[Decision]:
        """The same for async code."""
        return await run_steps_async(self._rule_steps(rules), summarise, self._note_summary_failure)

    def _rule_steps(self, rules: Moment | Sequence[Rule]) -> SummarySteps[list[Decision]]:
        return self._run_moment(rules) if isinstance(rules, str) else self._run_moment("manual", tuple(rules))

    def _due_moments(self) -> list[Moment]:
        """The moments that are due before the next call, derived from the log alone."""
        due: list[Moment] = []
        if self.view.unanswered or any(item.message.role == "tool" for item in self.view.items_since_reply()):
            due.append("tool_result")
        if self.view.started_turns < self.view.total_turns:
            if self.view.total_turns > 1:
                due.append("turn_end")
            due.append("turn_start")
        return [*due, "before_call"]

    def _is_idle(self, moment: Moment, policy: Policy) -> bool:
        """Whether this moment does nothing: no rules, nothing to repair, and the guard does not run."""
        guarded = moment in ("before_call", "overflow")
        return not (guarded or policy.moments.get(moment) or self.view.orphans or self.view.unanswered)

    def _run_moment(self, moment: Moment, rules: tuple[Rule, ...] | None = None) -> SummarySteps[list[Decision]]:
        """Run the rules of a moment. Edits and effects are made here; summary requests are yielded to the caller."""
        decisions: list[Decision] = []
        policy = self.policy
        if rules is not None:
            policy = msgspec.structs.replace(policy, moments={moment: rules})
        if not self._is_idle(moment, policy):
            steps = run_moment(moment, self._plan_context(policy))
            answer: str | None = None
            try:
                while True:
                    step = steps.send(answer)
                    if isinstance(step, AskSummary):
                        self._note_compaction_start(step.request)
                        answer = self._check_summary((yield step.request), step.request)
                    else:
                        answer = self._run_step(step)
            except StopIteration as done:
                decisions = done.value
        self._last_decisions.extend(decisions)
        self._end_moment(moment)
        return decisions

    def _plan_context(self, policy: Policy) -> PlanContext:
        if self._fruitless_rules or self.view.fruitless_rules:
            known = self._fruitless_rules | self.view.fruitless_rules.items()
            self._fruitless_rules = {key for key in known if key[1] == self.view.changed_seq}
        return PlanContext(policy, self.view, self.budget, self._clock(), self._fruitless_rules, self._mask)

    def _end_moment(self, moment: Moment) -> None:
        if self._compaction_start:
            self.history.add_note(
                "compaction_end", f"{self._compaction_start} -> {self._describe_view()}{self._summary_failure}"
            )
            self._compaction_start = self._summary_failure = ""
            for rule, at in sorted(self._fruitless_rules - self.view.fruitless_rules.items()):
                if at == self.view.changed_seq:  # so that a session that is opened again does not ask again
                    self._append(NoteAdded("tried", rule))
        if moment == "turn_start":
            self._append(NoteAdded("turn"))

    def _describe_view(self) -> str:
        return f"{self.view.tokens} tokens in {self.view.message_count} messages"

    def _note_compaction_start(self, request: SummaryRequest) -> None:
        """Note in the log that a summary of old messages is requested: it may take a while or fail."""
        if request.kind == SUMMARY and not self._compaction_start:
            self._compaction_start = self._describe_view()
            self.history.add_note("compaction_start", self._compaction_start)

    def _note_summary_failure(self, failure: Exception) -> None:
        """Note that the summarizer failed. The deterministic summary is used instead."""
        self._summary_failure = f"; {type(failure).__name__}"
        self.history.add_note("summary_failed", type(failure).__name__)

    def _check_summary(self, answer: object, request: SummaryRequest) -> str | None:
        """The text of a summarizer, if it can be used. Else the log says why, and the deterministic summary is used."""
        try:
            text = check_written_summary(answer, request, self.counter)
        except AnswerRejected as no:
            self.history.add_note(REJECTED_TOPIC, str(no))
            return None
        return None if text is None else str(text)

    def _run_step(self, step: RunEffect | CommitEdits) -> str | None:
        if isinstance(step, CommitEdits):
            return self._append_edits(step.edited)
        effect = step.effect
        if isinstance(effect, Spill) and effect.ids:
            whole = [self.recall(ident) for ident in effect.ids]
            effect = make_spill(effect.path, render_transcript(whole), append=effect.append)
        try:
            self._effects(effect)
        except Exception as failure:  # noqa: BLE001 - it is not our code
            return f"{type(failure).__name__}: {failure}"
        return None

    def _append_edits(self, edited: ViewEdited) -> str | None:
        """Append a transaction of edits. Inserted messages get ids from its seq. Return why it was refused, or None.

        If others appended meanwhile, the edits must still be valid for the new view; else they are not made.
        """
        meant = self.log.head + 1

        def placed(seq: int) -> ViewEdited:
            if seq != meant:
                check_edits(self.view, edited.edits, may_touch_newest=edited.stage == "guard")
            edits = tuple(
                msgspec.structs.replace(edit, message=msgspec.structs.replace(edit.message, id=f"e{seq}.{place}"))
                if isinstance(edit, Insert)
                else edit
                for place, edit in enumerate(edited.edits)
            )
            return msgspec.structs.replace(edited, edits=edits)

        try:
            self._append(placed)
        except BadEdit as moved:
            return f"the log moved meanwhile: {moved.args[0]}"
        self._edit_counts[edited.stage] += 1
        return None

    def render_request(self) -> Request:
        """Render and validate the view as it is now. `prepare` makes it fit first."""
        self._renderer.update(self.view)
        faults = self._renderer.faults()
        if faults:
            raise BadRequest(
                f"The request broke {len(faults)} rules of {self.dialect.name}: {faults[0].rule}: {faults[0].text}",
                "It was not sent and nothing was lost. This is a defect of tidegate; please report it.",
            )
        self._remember_request()
        self._shared_messages = self._renderer.shared
        return Request(self._renderer, self.tokens)

    def _note_model(self) -> None:
        """Note the model and the request options in the log, so that every request can be rendered again later."""
        asked = self._renderer.options
        sent = ModelNote(
            self.model,
            self.dialect.name,
            asked.max_tokens,
            asked.temperature,
            asked.top_p,
            self.window or 0,
            asked.cache_markers,
        )
        text = msgspec.json.encode(sent).decode()
        if text != self.view.model_note:
            self._append(NoteAdded("model", text))

    # --- looking --------------------------------------------------------------------------------------------------

    @property
    def policy(self) -> Policy:
        """The policy that makes the view fit."""
        return self._policy

    @property
    def window(self) -> int | None:
        """The context window in tokens; None if it is unknown. `recovery.set_window` changes it."""
        return self._window

    @property
    def last_decisions(self) -> list[Decision]:
        """What each rule decided when the last request was prepared."""
        return list(self._last_decisions)

    @property
    def edit_counts(self) -> Tally[str]:
        """How many edits each stage made since the session was opened."""
        return self._edit_counts.copy()

    @property
    def rules(self) -> "SessionRules":
        """The rules of the user that are kept word for word. Iterate over it to read them."""
        return SessionRules(self)

    @property
    def recovery(self) -> "Recovery":
        """What to do after a provider refused a request or reported other limits."""
        return Recovery(self)

    @property
    def budget(self) -> Budget:
        """The token budget. It changes only with the system prompt, the tools and the calibration."""
        key = (self.window, self.view.fixed_tokens, self.view.scale_by_model.get(self.model, 1.0))
        if self._budget is None or self._budget_key != key:
            self._budget, self._budget_key = self._make_budget(), key
        return self._budget

    def _make_budget(self) -> Budget:
        return make_budget(
            self.view,
            window=self.window,
            reserve=self._reserve,
            counter=self.counter,
            model=self.model,
            thinking=self.dialect.capabilities.plain_thinking,
            cap=self.policy.unknown_limit or None,
            prices=self._prices,
        )

    @property
    def tokens(self) -> int:
        """The size of the next request in the provider's tokens."""
        return measure_request(self.view, self.budget)

    def explain(self) -> Explanation:
        """Explain what is in the window, what the last request changed, and why."""
        return Explanation.build(
            self.view, self.budget, self.policy, self._last_decisions, self._edit_counts, self._clock()
        )


class SessionRules:
    """The user's rules that apply in a session: `session.rules`. Iterating yields each with the id of its message."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def __iter__(self) -> Iterator[LedgerLine]:
        return iter(held_rules(self._session.view))

    def add(self, text: str) -> str:
        """Pin a rule: it stays in the view and is never summarized. Return its message id."""
        text = " ".join(repair_unicode(text).split())
        if not 0 < len(text) <= _MAX_PIN_CHARS:
            raise BadInput(
                f"The rule has {len(text):,} characters.", f"Pin a sentence or two, at most {_MAX_PIN_CHARS:,}."
            )
        return self._session._add_parsed([user_message(text, PIN)])[0]

    def remove(self, text: str) -> bool:
        """Remove the rule with this text. False if no such rule applies. `history.undo` restores it.

        It is removed from the ledger and the pins, and messages added so far do not establish it again.
        """
        session = self._session
        session.history.refresh()
        rule = next((rule for rule in self if rule.text == text), None)
        if rule is None:
            return False
        edits = without_rule(session.view, rule, session.budget)
        before, why = session.view.tokens, f"the user removed a rule of {rule.ident}"
        failed = session._append_edits(
            ViewEdited("remove_rule", "manual", "", why, before, before + _token_change(session.view, edits), edits)
        )
        if failed is not None:
            raise GiveUp(f"The rule was not removed: {failed}.", "Try again; nothing was changed.")
        return True


class Recovery:
    """Adapts a session to what its provider reports or refuses: `session.recovery`."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def set_window(self, tokens: int) -> None:
        """Set the context window, for example after asking the server for it."""
        if tokens <= 0:
            raise BadInput(f"The window is {tokens} tokens.", "Give a positive number.")
        self._session._window = tokens

    def learn_limits(self, window: int | None, tokens: int | None = None) -> None:
        """Take over the window and the request's token count from a provider's refusal, as far as it states them."""
        session = self._session
        if window and (session.window is None or window < session.window):
            session._window = window
        if tokens:
            head, counted = session._last_request
            session._append(NoteAdded("weighed", f"{head} {counted} {session.model}", tokens))

    def lower_output(self, most: int) -> bool:
        """Ask for at most `most` tokens of output from now on. False if no more than that was asked for."""
        if not self._session._renderer.lower_output(most):
            return False
        self._session._note_model()
        return True

    def omit_images(self) -> int:
        """Replace the images in the view with a short text. Return how many. `history.undo` restores them."""
        session = self._session
        removal = plan_image_removal(session.view, session.budget.count)
        if removal.edits:
            before, why = session.view.tokens, f"the provider did not take {removal.images} images"
            session._append_edits(
                ViewEdited("media", "overflow", "", why, before, before + removal.token_change, removal.edits)
            )
        return removal.images

    def discard_signed_reasoning(self) -> None:
        """Stop sending the reasoning signed so far, because the provider no longer accepts it."""
        self._session._append(NoteAdded("unsigned"))
