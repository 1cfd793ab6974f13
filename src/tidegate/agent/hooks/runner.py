"""Hooks: small things to do when a turn starts or ends, from a configuration or in Python.

    hooks = Hooks(config.hooks, context=config.context, act=actions_of(config, toolbox, tools))
    for done in await hooks.fire("turn_start", session, summarise=summarise):
        show(done)

`turn_start` is fired before each request is prepared, `turn_end` when the model has answered. A hook can add to what
happens and stop nothing: it is asked before the session fits the view to the window, and has no say in that. One that
fails is reported and the turn goes on.

That a hook fired is noted in the log before it acts, so that it does not act twice after a crash; its cooldown is told
from there.
"""

import time
from collections.abc import Callable, Iterable
from typing import NamedTuple

from tidegate.agent.config.settings import ContextSettings
from tidegate.agent.hooks.actions import (
    ModuleActionRunner,
    compact_context,
    fill_placeholders,
    inject_message,
    run_hook_function,
    run_module_action,
)
from tidegate.agent.hooks.types import (
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
from tidegate.core.config.values import quote_value
from tidegate.core.errors import BadInput
from tidegate.core.events import NoteAdded
from tidegate.core.policy.policy import METRICS, measure_for_triggers
from tidegate.core.policy.policy import TriggerContext as Measured
from tidegate.core.text.clip import clip_chars
from tidegate.session.session import Session
from tidegate.session.summaries.drivers import AsyncSummarizer
from tidegate.store.log import Log

_FIRED_TOPIC, _FAILED_TOPIC, _LOG_TOPIC = "hook", "hook_failed", "hook_log"
_TIMEOUT_SECONDS = 60.0
_BLOCK_EVENTS = 256


class HookReport(NamedTuple):
    """What a hook did, in words; `error` if it failed."""

    hook_id: str
    action: str
    text: str
    is_error: bool = False


class _Firing(NamedTuple):
    seq: int
    time: float


class HookRunner:
    """`context` gives what a compaction leaves open, `act` runs actions of modules, `clock` is the session's own.

    `limit` is how many seconds a function or an action may take.
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
            raise BadInput(f"The hook {quote_value(hook.id)} is there twice.", "Give every hook an id of its own.")
        self.hooks[hook.id] = hook

    async def run_due(
        self, moment: HookMoment, session: Session, *, summarizer: AsyncSummarizer | None = None
    ) -> list[HookReport]:
        """Whatever is due now, in the order the hooks were given. Nothing is raised but a cancellation."""
        done: list[HookReport] = []
        for hook in list(self.hooks.values()):
            if hook.on != moment:
                continue
            try:
                at = _make_context(moment, session)
                if condition_holds(hook.condition, at) and not self._is_resting(hook, at):
                    self._note_firing(hook, session)
                    done.append(
                        HookReport(hook.id, hook_action_name(hook), await self._run_action(hook, at, summarizer))
                    )
            except Exception as failure:  # noqa: BLE001 - a hook that fails must not end the turn
                done.append(self._report_failure(hook, failure, session))
        return done

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
                at.session.add_note(_LOG_TOPIC, f"{hook.id}: {text}")
                return text

    def _report_failure(self, hook: Hook, failure: Exception, session: Session) -> HookReport:
        text = clip_chars(str(failure) or type(failure).__name__, 500).text
        if not isinstance(failure, BadInput):
            text = f"{type(failure).__name__}: {text}"
        try:
            session.add_note(_FAILED_TOPIC, f"{hook.id}: {text}")
        except Exception as worse:  # noqa: BLE001 - the log is in trouble: whoever writes to it next will raise that
            text += f" (nor could that be noted: {type(worse).__name__})"
        return HookReport(hook.id, hook_action_name(hook), text, is_error=True)

    # --- rest ---------------------------------------------------------------------------------------------------------

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
        """The turns that a policy wants between two compactions hold between those of hooks, too."""
        turns = at.session.policy.settings.get("cooldown_turns", 0)
        context, last_fired = at.session.policy.context, at.session.view.last_fired
        names = [hook.id for hook in self.hooks.values() if isinstance(hook.action, CompactContext)]
        names += [context.automatic_rule] if context is not None else []
        fired = [last_fired[name].turn for name in names if name in last_fired]
        return bool(fired) and isinstance(turns, int) and turns > 0 and at.turn - max(fired) <= turns

    def _note_firing(self, hook: Hook, session: Session) -> None:
        if _is_remembered(hook):
            session.add_note(_FIRED_TOPIC, hook.id)
            self._last_firings[hook.id] = _Firing(session.log.head, self._clock())

    def _read_firings(self, session: Session) -> None:
        """What was noted since we last looked. At first: as far back as a cooldown may reach, and this turn."""
        log = session.log
        if self._session is not session:
            self._session, self._last_firings = session, {}
            longest = max((hook.cooldown for hook in self.hooks.values()), default=0.0)
            self._read_seq = min(_find_seq_before(log, self._clock() - longest), _turn_start_seq(session))
        for event in log.read(self._read_seq + 1) if self._read_seq < log.head else ():
            if isinstance(event.payload, NoteAdded) and event.payload.topic == _FIRED_TOPIC:
                self._last_firings[event.payload.text] = _Firing(event.seq, event.time)
        self._read_seq = log.head


def _is_remembered(hook: Hook) -> bool:
    """Whether it matters when it fired last. What may fire at every call need not fill the log."""
    return hook.cooldown > 0 or isinstance(hook.condition, TurnCount)


def _make_context(moment: HookMoment, session: Session) -> HookContext:
    """Sizes are those the session's own policy goes by."""
    view, budget, policy = session.view, session.budget(), session.policy
    tokens = measure_for_triggers(policy, view, budget)
    pressure = METRICS["pressure"](Measured(view, budget, policy, tokens))
    return HookContext(moment, session, view.total_turns, tokens, view.message_count, view.tool_call_count, pressure)


def hook_action_name(hook: Hook) -> str:
    return str(hook.action.__struct_config__.tag or "function")


def _turn_start_seq(session: Session) -> int:
    """The place of the newest request in the log; 0 if the view shows none."""
    newest = session.view.newest_request
    return int(newest[1:]) if newest[:1] == "m" else 0


def _find_seq_before(log: Log, oldest: float) -> int:
    """A place before which nothing is as young as this, found in few steps from the end."""
    place, step = log.head, _BLOCK_EVENTS
    while place > 0:
        place, step = max(0, place - step), step * 2
        first = next(iter(log.read(place + 1)), None)
        if first is None or first.time < oldest:
            break
    return place
