"""Runs the hooks of an agent: actions at the start and end of turns, from a configuration or in Python.

    hooks = HookRunner(config.hooks, context=config.context, run_module=make_action_runner(config, toolbox, context))
    for report in await hooks.run_due("turn_start", session, summarizer=summarizer):
        show(report)

`turn_start` is the moment before each request is prepared, `turn_end` the moment when the model has answered; if the
user steers the turn on, `turn_end` comes again. A hook cannot stop anything. One that fails is reported, and the turn
continues.

A firing is noted in the log before the hook acts, so that the hook does not act twice after a crash. The cooldown is
computed from these notes.
"""

import time
from collections.abc import Callable, Iterable
from typing import NamedTuple

from tidegate.agent.config.settings import ContextSettings
from tidegate.agent.hook_types import (
    CompactContext,
    Hook,
    HookContext,
    HookMoment,
    InjectMessage,
    LogMessage,
    ModuleAction,
    RunFunction,
    TurnCount,
    condition_holds,
)
from tidegate.agent.hooks.actions import (
    ModuleActionRunner,
    compact_context,
    fill_placeholders,
    inject_message,
    run_hook_function,
    run_module_action,
)
from tidegate.core.config.values import quote_value
from tidegate.core.errors import BadInput
from tidegate.core.notes import HookFailed, HookFired, HookLogged, read_note
from tidegate.core.policy.policy import METRICS, TriggerContext
from tidegate.core.text.clip import clip_chars
from tidegate.session.session import Session
from tidegate.session.summaries.drivers import AsyncSummarizer
from tidegate.store.log import Log

_TIMEOUT_SECONDS = 60.0
_BLOCK_EVENTS = 256


class HookReport(NamedTuple):
    """What a hook did, as text for the user; `is_error` if it failed."""

    hook_id: str
    action: str
    text: str
    is_error: bool = False


class _Firing(NamedTuple):
    seq: int
    time: float


class HookRunner:
    """`context` gives the settings that a compaction leaves open. `run_module` runs actions of modules.

    `timeout` is in seconds, for an action of a module or an asynchronous function.
    """

    def __init__(
        self,
        hooks: Iterable[Hook] = (),
        *,
        context: ContextSettings | None = None,
        run_module: ModuleActionRunner | None = None,
        clock: Callable[[], float] = time.time,
        timeout: float = _TIMEOUT_SECONDS,
    ) -> None:
        self.hooks: dict[str, Hook] = {}
        self._context = context or ContextSettings()
        self._run_module = run_module
        self._clock = clock
        self._timeout = timeout
        self._session: Session | None = None
        self._read_seq = 0
        self._last_firings: dict[str, _Firing] = {}
        for hook in hooks:
            self.add(hook)

    def add(self, hook: Hook) -> None:
        if hook.id in self.hooks:
            raise BadInput(f"There are two hooks with the id {quote_value(hook.id)}.", "Give every hook its own id.")
        self.hooks[hook.id] = hook

    async def run_due(
        self, moment: HookMoment, session: Session, *, summarizer: AsyncSummarizer | None = None
    ) -> list[HookReport]:
        """Run the hooks that are due, in the order they were given. Nothing is raised except a cancellation."""
        reports: list[HookReport] = []
        for hook in list(self.hooks.values()):
            if hook.on != moment:
                continue
            try:
                at = _make_context(moment, session)
                if condition_holds(hook.condition, at) and not self._is_resting(hook, at):
                    self._note_firing(hook, session)
                    reports.append(
                        HookReport(hook.id, hook_action_name(hook), await self._run_action(hook, at, summarizer))
                    )
            except Exception as failure:  # noqa: BLE001 - a hook that fails must not end the turn
                reports.append(self._report_failure(hook, failure, session))
        return reports

    async def _run_action(self, hook: Hook, at: HookContext, summarizer: AsyncSummarizer | None) -> str:
        match hook.action:
            case CompactContext() as action:
                return await compact_context(hook.id, action, self._context, at, summarizer)
            case InjectMessage() as action:
                return inject_message(action, at)
            case ModuleAction() as action:
                return await run_module_action(action, self._run_module, self._timeout)
            case RunFunction() as action:
                return await run_hook_function(action, at, self._timeout)
            case LogMessage(message):
                text = fill_placeholders(message, at)
                at.session.history.append_note(HookLogged(hook.id, text))
                return text

    def _report_failure(self, hook: Hook, failure: Exception, session: Session) -> HookReport:
        text = clip_chars(str(failure) or type(failure).__name__, 500).text
        if not isinstance(failure, BadInput):
            text = f"{type(failure).__name__}: {text}"
        try:
            session.history.append_note(HookFailed(hook.id, text))
        except Exception as worse:  # noqa: BLE001 - the next write to the log will raise it
            text += f" (this could not be noted: {type(worse).__name__})"
        return HookReport(hook.id, hook_action_name(hook), text, is_error=True)

    # --- cooldown -----------------------------------------------------------------------------------------------------

    def _is_resting(self, hook: Hook, at: HookContext) -> bool:
        if isinstance(hook.action, CompactContext) and self._is_recently_compacted(at):
            return True
        if not _is_remembered(hook):
            return False
        self._read_firings(at.session)
        last = self._last_firings.get(hook.id)
        if last is None:
            return False
        if isinstance(hook.condition, TurnCount) and last.seq > _turn_start_seq(at.session):
            return True
        return 0 <= self._clock() - last.time < hook.cooldown

    def _is_recently_compacted(self, at: HookContext) -> bool:
        """Return whether a hook or the policy compacted within the policy's `cooldown_turns`."""
        turns = at.session.policy.settings.get("cooldown_turns", 0)
        context, view = at.session.policy.context, at.session.view
        names = [hook.id for hook in self.hooks.values() if isinstance(hook.action, CompactContext)]
        names += [context.automatic_rule] if context is not None else []
        fired = [firing.turn for name in names if (firing := view.find_last_firing(name)) is not None]
        return bool(fired) and isinstance(turns, int) and turns > 0 and at.turn - max(fired) <= turns

    def _note_firing(self, hook: Hook, session: Session) -> None:
        if _is_remembered(hook):
            session.history.append_note(HookFired(hook.id))
            self._last_firings[hook.id] = _Firing(session.log.head, self._clock())

    def _read_firings(self, session: Session) -> None:
        """Read new notes about firings. The first time, read back as far as the longest cooldown, and this turn."""
        log = session.log
        if self._session is not session:
            self._session, self._last_firings = session, {}
            longest = max((hook.cooldown for hook in self.hooks.values()), default=0.0)
            self._read_seq = min(_find_seq_before(log, self._clock() - longest), _turn_start_seq(session))
        for event in log.read(self._read_seq + 1) if self._read_seq < log.head else ():
            if (fired := read_note(event.payload, HookFired)) is not None:
                self._last_firings[fired.text] = _Firing(event.seq, event.time)
        self._read_seq = log.head


def _is_remembered(hook: Hook) -> bool:
    """Return whether the firings of a hook are noted: only if a cooldown or a turn count needs them."""
    return hook.cooldown > 0 or isinstance(hook.condition, TurnCount)


def _make_context(moment: HookMoment, session: Session) -> HookContext:
    """Return the context of a hook. Sizes are measured as the policy of the session measures them."""
    view, budget, policy = session.view, session.budget, session.policy
    sizes = TriggerContext(view, budget, policy)
    pressure = METRICS["pressure"](sizes)
    return HookContext(
        moment, session, view.total_turns, sizes.tokens, view.message_count, view.tool_call_count, pressure
    )


def hook_action_name(hook: Hook) -> str:
    return str(hook.action.__struct_config__.tag or "function")


def _turn_start_seq(session: Session) -> int:
    """Return the seq of the latest user request in the view; 0 if there is none."""
    newest = session.view.newest_request
    return int(newest[1:]) if newest[:1] == "m" else 0


def _find_seq_before(log: Log, oldest: float) -> int:
    """Return a seq at or before the first event at time `oldest`, found in few steps from the end of the log."""
    seq, step = log.head, _BLOCK_EVENTS
    while seq > 0:
        seq, step = max(0, seq - step), step * 2
        first = next(iter(log.read(seq + 1)), None)
        if first is None or first.time < oldest:
            break
    return seq
