"""The promises of the preset `picoclaw`: what is counted, the older way, repair, use without an agent."""

import json
import subprocess
import sys
import threading

import pytest

from tests.seeds.talk import (
    SYSTEM,
    Json,
    Preset,
    Scribe,
    asks,
    calls,
    edits,
    flat,
    names,
    numbers,
    only,
    opened,
    paired,
    passage,
    reopened,
    replies,
    result,
    said,
    stages,
    tool,
    turns,
)
from tidegate import Request
from tidegate.core.budget import make_budget
from tidegate.core.edits import Drop
from tidegate.core.events import Event, MessageAdded
from tidegate.core.messages import Call, Message, Result, Text, user_message
from tidegate.core.stages import STAGES
from tidegate.core.tokens.counting import CharsPerToken, count_message
from tidegate.core.view import LogView


@pytest.mark.seed("PIC-06", without=("before_call/summarize",))
def test_everything_that_is_sent_is_counted(preset: Preset) -> None:
    """Four hundred characters are a hundred tokens wherever they stand, and enough of them start a summary."""
    policy = preset("picoclaw", max_tokens=4_000)

    def size(
        *, said: int = 0, name: int = 0, arguments: int = 0, system: int = 0, tools: int = 0, summarized: bool
    ) -> int:
        session = opened(policy, window=20_000, system=SYSTEM + "s" * system, tools=[tool("read", "d" * (40 + tools))])
        session.add(*turns(1, 3, reply=10_000), asks("ask-4", 120 + said))
        session.add(calls("a", tool="read" + "n" * name, arguments=json.dumps({"x": "v" * arguments})))
        session.add(result("a", passage("a", 4_000)))
        found = session.tokens
        session.prepare(Scribe())
        assert ("summarize" in stages(session)) == summarized
        return found

    plain = size(summarized=False)
    assert size(said=400, summarized=False) == plain + 100
    assert size(name=40, summarized=False) == plain + 10
    assert size(arguments=400, summarized=False) == plain + 100
    assert size(system=400, summarized=False) == plain + 100
    assert size(tools=400, summarized=False) == plain + 100
    assert size(arguments=30_000, summarized=True) == plain + 7_500
    assert size(system=30_000, summarized=True) == plain + 7_500
    assert size(tools=30_000, summarized=True) == plain + 7_500


@pytest.mark.seed("PIC-07", change={"background": True})
def test_the_older_way_is_off(preset: Preset) -> None:
    session, scribe = opened(preset("picoclaw", max_tokens=8_000), window=40_000), Scribe()
    session.add(*turns(1, 15, reply=8_000))
    assert 0.75 * 40_000 < session.tokens < 32_000
    session.run_rules("turn_end", scribe)
    assert stages(session) == []
    assert scribe.asked == []


@pytest.mark.seed("PIC-07", change={"background": False})
@pytest.mark.seed("PIC-07", change={"message_threshold": 40})
@pytest.mark.seed("PIC-07", change={"token_percent": 0.95})
def test_the_older_way_can_be_asked_for(preset: Preset) -> None:
    """More than 20 messages, or more than 75% of the window, after a turn."""
    policy = preset("picoclaw", background=True, max_tokens=8_000)
    for count, reply, acts in ((10, 200, False), (11, 200, True), (5, 23_600, False), (5, 25_000, True)):
        session, scribe = opened(policy, window=40_000), Scribe()
        session.add(*turns(1, count, reply=reply))
        session.run_rules("turn_end", scribe)
        assert stages(session) == ["summarize"] * acts, (count, reply)
        assert bool(scribe.asked) == acts
        assert edits(session) == [] or edits(session)[0].edited.rule == "background"
    session = opened(policy, window=40_000)
    session.add(*turns(1, 10, reply=200), replies("reply-10b"))
    session.run_rules("turn_end", Scribe())
    assert stages(session) == ["summarize"], "21 are more than 20"


@pytest.mark.seed("PIC-07", change={"background": False})
def test_the_summary_is_written_while_the_conversation_goes_on(preset: Preset) -> None:
    session = opened(preset("picoclaw", background=True))
    session.add(*turns(1, 11))
    asked, go_on = threading.Event(), threading.Event()

    def slow(request: object) -> str:
        asked.set()
        assert go_on.wait(120)
        return "written in the background"

    worker = threading.Thread(target=session.run_rules, args=("turn_end", slow), daemon=True)
    worker.start()
    while worker.is_alive() and not asked.wait(0.01):
        pass
    assert asked.is_set(), "a summary was started"
    session.add(asks("ask-12"))
    go_on.set()
    worker.join(120)
    assert not worker.is_alive()
    request = session.prepare()
    assert "written in the background" in flat(request)
    assert request.messages[-1] == asks("ask-12")
    assert numbers(request, "ask-") == [10, 11, 12]


@pytest.mark.seed("PIC-08", fixed="the repair of what was read belongs to no policy and cannot be turned off")
def test_a_broken_history_is_mended_before_it_is_sent(preset: Preset) -> None:
    broken = opened(preset("picoclaw"))
    broken.add(result("trimmed-away", passage("orphan")), asks("ask-1"), calls("a", "b"), result("a", passage("a")))
    broken.add(asks("ask-2"), replies("reply-2"), asks("ask-3"))
    for session in (broken, reopened(broken)):
        request = session.prepare()
        assert paired(request) == [("a", "b")]
        assert names(request) == ["ask-1", "a", "ask-2", "reply-2", "ask-3"]
        assert stages(session) == ["repair"], "once, and on record"
    assert passage("orphan") in said(broken)
    for session, failed in ((opened(preset("picoclaw"), wire="anthropic"), True), (broken, None)):
        session.add(asks("ask"), calls("c"), asks("ask-4"))
        answers = [each for each in _list_parts(session.prepare()) if "interrupted: no result" in str(each)]
        assert answers[-1].get("is_error") is failed


def _list_parts(request: Request) -> list[Json]:
    """The parts of all messages; a message with a text is its only part."""
    return [
        part
        for message in request.messages
        for part in (message["content"] if isinstance(message["content"], list) else [dict(message)])
    ]


@pytest.mark.seed("PIC-10", fixed="that the core needs no session is a fact of its imports, not of a policy")
def test_budget_and_cuts_need_messages_and_integers_only() -> None:
    """No session, no model, no files: a view folded from messages, two integers, and the cut."""
    counter = CharsPerToken(4)
    view = LogView()
    spoken: list[Message] = [user_message(f"{number} {'word ' * 40}") for number in range(6)]
    spoken.append(Message("assistant", (Call("a", "read", "{}"), Call("b", "read", "{}"))))
    spoken += [Message("tool", (Result(ident, (Text("text " * 40),)),)) for ident in ("a", "b")]
    spoken.append(user_message("and now?"))
    for seq, message in enumerate(spoken, 1):
        named = Message(message.role, message.parts, id=f"m{seq}")
        view.fold(Event(seq, 0.0, MessageAdded(named, count_message(named, counter))))
    budget = make_budget(view, window=1_000, reserve=200, counter=counter)
    assert budget.room == 1_000 - 200 - budget.fixed
    for share, gone in ((0.5, 5), (0.7, 6), (0.8, 6), (0.9, 9)):
        edit = only(STAGES["drop_oldest"](view, budget, share=share).edits)
        assert isinstance(edit, Drop)
        assert edit.ids == tuple(f"m{seq}" for seq in range(1, gone + 1))


@pytest.mark.seed("PIC-10", fixed="that the core needs no session is a fact of its imports, not of a policy")
def test_the_core_loads_nothing_else_of_the_package() -> None:
    code = "import sys, tidegate.core.budget, tidegate.core.stages; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = [name for name in done.stdout.split() if name.startswith("tidegate.")]
    assert "tidegate.core.stages.turns" in loaded
    assert all(name.startswith("tidegate.core") for name in loaded), loaded
