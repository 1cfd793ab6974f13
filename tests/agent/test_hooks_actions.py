"""What hooks do, and what they cannot do."""

import asyncio
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.agent.test_hooks import LOG, fired, notes, opened
from tests.seeds.talk import asks, batch, replies, turns
from tidegate import MemoryLog, Session, SummaryRequest
from tidegate.agent.config.files import parse_config
from tidegate.agent.config.settings import ContextSettings
from tidegate.agent.hook_types import (
    Always,
    CompactContext,
    ContextPressure,
    Hook,
    HookContext,
    InjectMessage,
    LogMessage,
    MessageCount,
    ModuleAction,
    RunFunction,
    TurnCount,
)
from tidegate.agent.hooks.actions import MAX_INJECTED_TOKENS, make_action_runner
from tidegate.agent.hooks.runner import HookReport, HookRunner
from tidegate.agent.tools.modules import HELLO_TOOL
from tidegate.agent.tools.tool import ToolContext, ToolResult
from tidegate.agent.tools.toolbox import Toolbox, list_standard_tools
from tidegate.core.events import Event, MessageAdded, NoteAdded
from tidegate.core.messages import is_user_request, text_of
from tidegate.wire.registry import DIALECTS

# What.


def test_log_fills_in_three_numbers_and_nothing_else() -> None:
    session = opened(system="")
    session.add({"role": "user", "content": "x" * 4_000}, {"role": "assistant", "content": "y" * 400})
    message = "Turn {turn}: ~{tokens} tokens, {messages} messages, {session} {} {turn!r} {{turn}}"
    done = fired(HookRunner([Hook("h", Always(), LogMessage(message), "turn_start")]), session)
    text = "Turn 1: ~1100 tokens, 2 messages, {session} {} {turn!r} {1}"
    assert done == [HookReport("h", "log", text)]
    assert notes(session, "hook_log") == [f"h: {text}"]
    assert session.view.message_count == 2, "the model does not see it"


@pytest.mark.parametrize("wire", sorted(DIALECTS))
@pytest.mark.parametrize("role", ["system", "user"])
def test_an_injected_message_is_shown_once_and_starts_no_turn(wire: str, role: Any) -> None:
    session = opened(wire=wire)
    session.add(asks("ask-1"), *batch("call-1", 200))
    hooks = HookRunner([Hook("h", TurnCount(1), InjectMessage("It is turn {turn}.", role), "turn_start")])
    assert fired(hooks, session) == [HookReport("h", "inject_message", "It is turn 1.")]
    body = session.prepare().to_bytes().decode()
    assert body.count("It is turn 1.") == 1
    assert session.view.total_turns == 1
    said = [event.payload.message for event in session.log.read() if isinstance(event.payload, MessageAdded)]
    assert (said[-1].role, is_user_request(said[-1]), said[-1].user_visible) == (role, False, False)


def test_an_injected_message_is_bounded_by_the_window() -> None:
    for window, most in ((2_000, 2_000 // 8), (1_000_000, MAX_INJECTED_TOKENS)):
        session = opened(window=window, system="")
        session.add(asks("ask-1"))
        fired(HookRunner([Hook("h", Always(), InjectMessage("word " * 1_600), "turn_start")]), session)
        item = session.view.items[-1]
        assert "word word" in text_of(item.message)
        assert item.tokens <= most + 8


def test_a_tools_words_are_not_injected() -> None:
    """What a tool says can look like a placeholder or an order; it reaches no injected message."""
    session = opened()
    session.add(asks("ask-1"), *batch("{message}", 80), {"role": "assistant", "content": "{turn} [system] obey"})
    fired(HookRunner([Hook("h", Always(), InjectMessage("{messages} {turn} {text}"), "turn_start")]), session)
    assert text_of(session.view.items[-1].message) == "4 1 {text}"


def crowded(**more: Any) -> Session:
    session = opened(window=10_000, **more)
    session.add(*turns(1, 8, ask=1_000, reply=3_000), asks("ask-9"))
    return session


def test_compact_context_truncates_by_the_sessions_own_machinery() -> None:
    session = crowded()
    hook = Hook("squeeze", ContextPressure(0.5), CompactContext("truncate", 3), "turn_start", 5.0)
    before = session.view.tokens
    (done,) = fired(HookRunner([hook]), session)
    assert not done.is_error
    assert f"{before} tokens became {session.view.tokens}" in done.text
    assert [item.message.kind for item in session.view.items] == ["note", "", "", ""]
    assert session.view.last_fired["squeeze"].turn == 9
    undone = session.history.undo()
    assert undone is not None
    assert session.view.tokens == before, "it is an edit like any other"


def test_compact_context_summarizes_and_leaves_open_what_the_context_says() -> None:
    asked: list[SummaryRequest] = []

    async def summarize(request: SummaryRequest) -> str:
        asked.append(request)
        return "they spoke of valves"

    session = crowded()
    hooks = HookRunner(
        [Hook("h", Always(), CompactContext(), "turn_start")],
        context=ContextSettings(keep_recent=5, summary_max_tokens=77),
    )
    fired(hooks, session, summarizer=summarize)
    assert text_of(session.view.items[0].message) == "[Summary: they spoke of valves]"
    assert [item.message.kind for item in session.view.items].count("") == 5
    assert [request.max_tokens for request in asked] == [77]


@pytest.mark.parametrize("strategy", ["summarize", "truncate"])
def test_compact_context_does_what_the_policys_own_rule_does(strategy: Any) -> None:
    async def summarize(request: SummaryRequest) -> str:
        return "they spoke of valves"

    settings = {"strategy": strategy, "keep_recent": 5, "summary_max_tokens": 77, "reminder_tokens": 200}
    by_hook, by_rule = crowded(settings=settings), crowded(settings=settings)
    action = CompactContext(strategy, 5, 77)
    fired(HookRunner([Hook("h", Always(), action, "turn_start")]), by_hook, summarizer=summarize)
    asyncio.run(by_rule.compact_async(summarize))
    assert by_hook.view.message_count < crowded().view.message_count
    assert [item.message for item in by_hook.view.items] == [item.message for item in by_rule.view.items]


def test_after_a_compaction_hooks_rest_as_many_turns_as_the_policy_says() -> None:
    session = crowded()
    first = Hook("first", MessageCount(4), CompactContext("truncate", 2), "turn_start")
    second = Hook("second", MessageCount(4), CompactContext("truncate", 2), "turn_end")
    hooks = HookRunner([first, second])
    assert len(fired(hooks, session)) == 1
    for since in (1, 2, 3):
        session.add(*batch(f"call-{since}", 50, 50), replies(f"reply-{since}"), asks(f"ask-{9 + since}"))
        assert session.view.total_turns == 9 + since
        acted = [done.hook_id for done in (*fired(hooks, session), *fired(hooks, session, "turn_end"))]
        assert acted == (["first"] if since > 2 else []), since


def test_nothing_to_compact_is_said() -> None:
    session = opened()
    session.add(asks("ask-1"))
    (done,) = fired(HookRunner([Hook("h", Always(), CompactContext("truncate", 4), "turn_start")]), session)
    assert "nothing was compacted. There is nothing to do." in done.text
    assert not done.is_error


MODULES = "modules: {hello: {}, filesystem: {constraints: {allowed_actions: [read]}}}"


def acting(tmp_path: Path, text: str = MODULES) -> tuple[Session, Callable[[ModuleAction], list[HookReport]]]:
    session = opened()
    config = parse_config(text, {})
    toolbox = Toolbox([*list_standard_tools(), HELLO_TOOL])
    toolbox.approval = parse_approval(text)
    act = make_action_runner(config, toolbox, ToolContext(tmp_path, session))
    return session, lambda action: fired(
        HookRunner([Hook("h", Always(), action, "turn_start")], run_module=act), session
    )


def parse_approval(text: str) -> Any:
    from tidegate.agent.config.tool_access import resolve_approval

    return resolve_approval(parse_config(text, {}))


def test_a_module_action_runs_the_tool_behind_it(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("one\ntwo\n", "utf-8")
    session, act = acting(tmp_path)
    assert act(ModuleAction("hello", "greet", {"name": "Ada"})) == [HookReport("h", "module_action", "Hello, Ada.")]
    (done,) = act(ModuleAction("filesystem", "read", {"path": "notes.txt"}))
    assert "two" in done.text
    assert session.view.message_count == 0, "its result is for the user, not for the model"


@pytest.mark.parametrize(
    ("action", "said"),
    [
        (ModuleAction("filesystem", "write", {"path": "x", "text": "y"}), "do not allow it"),
        (ModuleAction("shell", "run", {"command": "touch x"}), "do not allow it"),
        (ModuleAction("filesystem", "read", {"path": "/etc/passwd"}), "filesystem.read"),
        (ModuleAction("hello", "greet", {"nme": "Ada"}), "hello.greet"),
    ],
)
def test_a_hook_may_do_no_more_than_the_agent(tmp_path: Path, action: ModuleAction, said: str) -> None:
    session, act = acting(tmp_path)
    (done,) = act(action)
    assert done.is_error
    assert said in done.text
    assert "root:" not in done.text
    assert notes(session, "hook_failed") == [f"h: {done.text}"]
    assert list(tmp_path.iterdir()) == []


def test_a_hook_is_asked_for_like_a_call(tmp_path: Path) -> None:
    _, act = acting(tmp_path, "capabilities: {tools: {shell: deny}}")
    (done,) = act(ModuleAction("shell", "run", {"command": "touch x"}))
    assert done.is_error
    assert list(tmp_path.iterdir()) == []


# Functions, and what goes wrong.


def test_functions_sync_and_async_are_told_where_the_session_stands() -> None:
    seen: list[HookContext] = []

    async def later(at: HookContext) -> str:
        await asyncio.sleep(0)
        return f"turn {at.turn}"

    def now(at: HookContext) -> None:
        seen.append(at)

    session = opened()
    session.add(asks("ask-1"))
    hooks = HookRunner([Hook("later", Always(), RunFunction(later)), Hook("now", Always(), RunFunction(now))])
    assert fired(hooks, session, "turn_end") == [
        HookReport("later", "function", "turn 1"),
        HookReport("now", "function", ""),
    ]
    assert (seen[0].moment, seen[0].message_count, seen[0].session) == ("turn_end", 1, session)


def broken(at: HookContext) -> str:
    raise LookupError("no such thing")


async def stuck(at: HookContext) -> str:
    await asyncio.Event().wait()
    return "never"


async def refusing(module: str, action: str, params: Mapping[str, Any]) -> ToolResult:
    return ToolResult("It is closed.", is_error=True)


@pytest.mark.parametrize(
    ("action", "said"),
    [
        (RunFunction(broken), "LookupError: no such thing"),
        (RunFunction(stuck), "TimeoutError"),
        (ModuleAction("hello", "greet"), "hello.greet: It is closed."),
    ],
)
def test_a_hook_that_fails_is_reported_and_the_others_go_on(action: Any, said: str) -> None:
    session = opened()
    hooks = [Hook("bad", Always(), action, "turn_start", 9.0), Hook("good", Always(), LOG, "turn_start")]
    bad, good = fired(HookRunner(hooks, run_module=refusing, timeout=0.05), session)
    assert (bad.is_error, good.is_error) == (True, False)
    assert said in bad.text
    assert notes(session, "hook_failed") == [f"bad: {bad.text}"]
    again = fired(HookRunner(hooks, run_module=refusing), session)
    assert [done.hook_id for done in again] == ["good"], "one that failed rests, too"


def test_without_modules_an_action_fails_and_says_so() -> None:
    (done,) = fired(HookRunner([Hook("h", Always(), ModuleAction("hello", "greet"), "turn_start")]), opened())
    assert done.is_error
    assert "No module can be run here." in done.text


class FullLog(MemoryLog):
    def append(self, *events: Event) -> None:
        if any(isinstance(event.payload, NoteAdded) and event.payload.topic.startswith("hook") for event in events):
            raise OSError("disk full")
        super().append(*events)


def test_a_hook_whose_failure_cannot_be_noted_is_still_reported() -> None:
    (done,) = fired(HookRunner([Hook("h", Always(), LOG, "turn_start")]), opened(log=FullLog()))
    assert done.is_error
    assert "disk full" in done.text


def test_a_cancellation_passes_through() -> None:
    async def go() -> None:
        task = asyncio.create_task(HookRunner([Hook("h", Always(), RunFunction(stuck))]).run_due("turn_end", opened()))
        await asyncio.sleep(0)
        task.cancel()
        await task

    with pytest.raises(asyncio.CancelledError):
        asyncio.run(go())


def veto(at: HookContext) -> Any:
    return False


@pytest.mark.parametrize("action", [RunFunction(veto), RunFunction(broken)])
def test_no_hook_stops_a_compaction_that_the_window_forces(action: RunFunction) -> None:
    session = opened(window=6_000)
    session.add(*turns(1, 12, ask=1_000, reply=3_000), asks("ask-13"))
    assert session.tokens > 6_000
    fired(HookRunner([Hook("no", Always(), action, "turn_start")]), session)
    session.prepare()
    assert session.tokens <= 5_000
    assert any(each.acted and each.moment == "before_call" for each in session.last_decisions)
