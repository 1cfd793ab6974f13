"""The promises of the preset `picoclaw`."""

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
    batch,
    calls,
    edits,
    fate,
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
    turn,
    turns,
)
from tidegate import GiveUp, Outcome, Session, View
from tidegate.core.budget import Budget, make_budget
from tidegate.core.edits import Drop
from tidegate.core.events import Event, Said
from tidegate.core.messages import Call, Message, Result, Text, user
from tidegate.core.stages import STAGES
from tidegate.core.tokens import CharsPer, count_message


@pytest.mark.seed("PIC-01", change={"max_tokens": 16_000})
@pytest.mark.seed("PIC-01", change={"context_window": 65_536})
def test_window_and_output_are_two_settings(preset: Preset) -> None:
    plain = preset("picoclaw")
    assert plain.settings["max_tokens"] == 32_768
    for policy in (plain, preset("picoclaw", context_window=0)):
        budget = opened(policy, window=None).budget()
        assert (budget.window, budget.reserve) == (131_072, 32_768), "0 is the safe default"
    more_output = opened(preset("picoclaw", max_tokens=20_000), window=None).budget()
    assert (more_output.window, more_output.reserve) == (131_072, 20_000)


@pytest.mark.seed("PIC-01", change={"context_window": 65_536})
def test_a_window_that_was_set_holds(preset: Preset) -> None:
    policy = preset("picoclaw", context_window=100_000, max_tokens=8_192)
    for model in ("", "gpt-4o"):
        budget = Session(model, policy=policy, count="chars/4").budget()
        assert (budget.window, budget.reserve) == (100_000, 8_192)


@pytest.mark.seed("PIC-02", change={"max_tokens": 3_000})
def test_the_history_budget_is_one_visible_subtraction(preset: Preset) -> None:
    tools = [tool("read_file"), tool("write_file")]
    session = opened(preset("picoclaw", max_tokens=4_000), window=20_000, tools=tools)
    budget = session.budget()
    assert budget.room == 20_000 - budget.fixed - 4_000
    line = f"window 20,000 - reserve 4,000 - fixed {budget.fixed:,} = room {budget.room:,}"
    assert session.explain().subtraction == [line]
    assert line in str(session.explain())
    session.set_system(SYSTEM + "x" * 400)
    assert session.budget().room == budget.room - 100
    session.set_tools([*tools, tool("y" * 400, "z" * 400)])
    assert session.budget().room <= budget.room - 300


@pytest.mark.seed("PIC-02", change={"max_tokens": 3_000})
def test_the_history_budget_is_the_threshold_and_no_percentage(preset: Preset) -> None:
    """A history that fills its budget to the last token is left alone; one token more and it is summarised."""
    for over in (0, 1):
        session = opened(preset("picoclaw", max_tokens=4_000), window=20_000)
        session.add(*turns(1, 5, reply=8_000), asks("ask-6"), calls("a"))
        left = session.budget().room - session.view.tokens
        session.add(result("a", passage("a", 4 * (left - 4 + over))))
        request = session.prepare(Scribe())
        assert stages(session) == ["summarise"] * over
        assert over or request.tokens == 16_000


@pytest.mark.seed("PIC-03", without=("before_call/summarise",))
@pytest.mark.seed("PIC-03", change={"max_tokens": 100})
def test_a_request_over_the_limit_is_summarised_before_the_call(preset: Preset) -> None:
    """One turn, sixteen rounds of tools: every request is measured, and those that would be over are summarised."""
    session, scribe = opened(preset("picoclaw", max_tokens=5_000), window=20_000), Scribe()
    session.add(asks("ask-1"))
    summarised = 0
    for step in range(1, 17):
        session.add(*batch(f"step-{step}", 8_000))
        over = session.size() > 15_000
        request = session.prepare(scribe)
        summarised += over
        assert len(scribe.asked) == summarised, "summarised when it is over, and only then"
        assert request.tokens <= 15_000
        assert names(request)[0] == "ask-1"
        assert names(request)[-1] == f"step-{step}.1"
    assert summarised >= 2
    assert set(stages(session)) == {"summarise"}


@pytest.mark.seed("PIC-04", without=("overflow/drop_oldest",))
@pytest.mark.seed("PIC-04", fields={"recoveries": 2})
def test_the_emergency_drops_the_older_half_once(preset: Preset) -> None:
    session, scribe = opened(preset("picoclaw", max_tokens=20_000), window=100_000), Scribe()
    session.add(*turns(1, 6, (400, 400)), asks("ask-7"))
    before = session.prepare(scribe)
    assert stages(session) == [], "an estimate that says it fits is believed"
    after = session.overflowed(scribe)
    assert scribe.asked == [], "no model is asked when the model refuses"
    system, first, *rest = after.messages
    assert system == before.messages[0], "the system prompt is not edited"
    assert first["role"] == "user"
    assert first["content"].startswith("[Note: the oldest half")
    assert first["content"].endswith(passage("ask-4"))
    assert rest == before.messages[17:], "31 messages: of the oldest 15 all go, at the border of a turn's group"
    with pytest.raises(GiveUp):
        session.overflowed(scribe)
    assert passage("ask-1") in said(session)


@pytest.mark.seed("PIC-04", without=("overflow/drop_oldest",))
def test_the_emergency_leaves_the_summary(preset: Preset) -> None:
    session, scribe = opened(preset("picoclaw", max_tokens=5_000), window=20_000), Scribe("what was said before")
    session.add(*turns(1, 8, reply=8_000), asks("ask-9"))
    session.prepare(scribe)
    assert stages(session) == ["summarise"]
    session.add(*turn(9)[1:], *turn(10), asks("ask-11"))
    request = session.overflowed(scribe)
    assert stages(session) == ["summarise", "drop_oldest"]
    assert "what was said before" in flat(request)
    assert "[Note: the oldest half" in flat(request)
    assert request.messages[0] == {"role": "system", "content": SYSTEM}


def in_mid_group(view: View, budget: Budget, *, share: float = 0.5, note: str = "", reminder: int = 0) -> Outcome:
    """What the document complains of: a cut that counts messages and looks at nothing else."""
    gone = view.items[: int(len(view.items) * share)]
    return Outcome((Drop(tuple(item.message.id for item in gone)),), why="half")


@pytest.mark.seed("PIC-05", swap={"drop_oldest": in_mid_group})
def test_a_cut_moves_before_a_group(preset: Preset) -> None:
    """A batch of four stands at every place a cut can fall on: it leaves whole or stays whole, and never sooner."""
    for before in range(9):
        session = opened(preset("picoclaw", max_tokens=20_000), window=100_000, system="")
        small = [each for number in range(before) for each in (asks(f"ask-{number}"), replies(f"reply-{number}"))]
        session.add(*small, asks("ask-x"), *batch("x", 200, 200, 200, 200), replies("reply-x"), *turns(90, 91))
        count = session.view.messages
        request = session.overflowed()
        batches = paired(request)
        start = 2 * before + 1
        half = count // 2
        assert batches == ([] if half >= start + 5 else [("x.1", "x.2", "x.3", "x.4")])
        gone = half if half <= start or half >= start + 5 else start
        assert session.view.messages == count - gone + 1
        assert stages(session) == ["drop_oldest"]
        _stored_whole(session)


def _stored_whole(session: Session) -> None:
    """Of what is stored, too: no transaction of the log takes a part of a group."""
    group = {event.seq for event in session.log.read() if isinstance(event.what, Said) and _in_batch(event.what.message)}
    dropped = {ident for made in edits(session) for edit in made.edited.edits if isinstance(edit, Drop) for ident in edit.ids}
    assert len(group) == 5
    assert len(dropped & {f"m{seq}" for seq in group}) in (0, 5)
    again = reopened(session)
    assert again.prepare().messages == session.prepare().messages


def _in_batch(message: Message) -> bool:
    return any(isinstance(part, Call | Result) for part in message.parts)


@pytest.mark.seed("PIC-05", without=("before_call/summarise",))
def test_a_summary_never_splits_a_group(preset: Preset) -> None:
    """Groups of several sizes and many lengths of history, so that the half to keep ends anywhere."""
    for extra in range(0, 4_000, 400):
        session = opened(preset("picoclaw", max_tokens=2_000), window=8_000)
        session.add(*turns(1, 6, (900, 900, 900), (700,), reply=800 + extra), asks("ask-7"))
        request = session.prepare(Scribe())
        assert stages(session) == ["summarise"]
        assert all(len(set(batch)) in (1, 3) for batch in paired(request))
        assert numbers(request, "ask-")[-1] == 7


@pytest.mark.seed("PIC-06", without=("before_call/summarise",))
def test_everything_that_is_sent_is_counted(preset: Preset) -> None:
    """Four hundred characters are a hundred tokens wherever they stand, and enough of them start a summary."""
    policy = preset("picoclaw", max_tokens=4_000)

    def size(*, said: int = 0, name: int = 0, arguments: int = 0, system: int = 0, tools: int = 0, summarised: bool) -> int:
        session = opened(policy, window=20_000, system=SYSTEM + "s" * system, tools=[tool("read", "d" * (40 + tools))])
        session.add(*turns(1, 3, reply=10_000), asks("ask-4", 120 + said))
        session.add(calls("a", tool="read" + "n" * name, arguments=json.dumps({"x": "v" * arguments})))
        session.add(result("a", passage("a", 4_000)))
        found = session.size()
        session.prepare(Scribe())
        assert ("summarise" in stages(session)) == summarised
        return found

    plain = size(summarised=False)
    assert size(said=400, summarised=False) == plain + 100
    assert size(name=40, summarised=False) == plain + 10
    assert size(arguments=400, summarised=False) == plain + 100
    assert size(system=400, summarised=False) == plain + 100
    assert size(tools=400, summarised=False) == plain + 100
    assert size(arguments=30_000, summarised=True) == plain + 7_500
    assert size(system=30_000, summarised=True) == plain + 7_500
    assert size(tools=30_000, summarised=True) == plain + 7_500


@pytest.mark.seed("PIC-07", change={"background": True})
def test_the_older_way_is_off(preset: Preset) -> None:
    session, scribe = opened(preset("picoclaw", max_tokens=8_000), window=40_000), Scribe()
    session.add(*turns(1, 15, reply=8_000))
    assert 0.75 * 40_000 < session.size() < 32_000
    session.end_turn(scribe)
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
        session.end_turn(scribe)
        assert stages(session) == ["summarise"] * acts, (count, reply)
        assert bool(scribe.asked) == acts
        assert edits(session) == [] or edits(session)[0].edited.rule == "background"


@pytest.mark.seed("PIC-07", change={"background": False})
def test_the_summary_is_written_while_the_conversation_goes_on(preset: Preset) -> None:
    session = opened(preset("picoclaw", background=True))
    session.add(*turns(1, 11))
    asked, go_on = threading.Event(), threading.Event()

    def slow(request: object) -> str:
        asked.set()
        assert go_on.wait(10)
        return "written in the background"

    worker = threading.Thread(target=session.end_turn, args=(slow,), daemon=True)
    worker.start()
    assert asked.wait(2), "a summary was started"
    session.add(asks("ask-12"))
    go_on.set()
    worker.join(10)
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


@pytest.mark.seed("PIC-10", fixed="that the core needs no session is a fact of its imports, not of a policy")
def test_budget_and_cuts_need_messages_and_integers_only() -> None:
    """No session, no model, no files: a view folded from messages, two integers, and the cut."""
    counter = CharsPer(4)
    view = View()
    spoken: list[Message] = [user(f"{number} {'word ' * 40}") for number in range(6)]
    spoken.append(Message("assistant", (Call("a", "read", "{}"), Call("b", "read", "{}"))))
    spoken += [Message("tool", (Result(ident, (Text("text " * 40),)),)) for ident in ("a", "b")]
    spoken.append(user("and now?"))
    for seq, message in enumerate(spoken, 1):
        named = Message(message.role, message.parts, id=f"m{seq}")
        view.fold(Event(seq, 0.0, Said(named, count_message(named, counter))))
    budget = make_budget(view, window=1_000, reserve=200, counter=counter)
    assert budget.room == 1_000 - 200 - budget.fixed
    for share, gone in ((0.5, 5), (0.7, 6), (0.8, 6), (0.9, 9)):
        edit = only(STAGES["drop_oldest"](view, budget, share=share).edits)
        assert isinstance(edit, Drop)
        assert edit.ids == tuple(f"m{seq}" for seq in range(1, gone + 1))


@pytest.mark.seed("PIC-10", fixed="that the core needs no session is a fact of its imports, not of a policy")
def test_the_core_loads_nothing_else_of_the_package() -> None:
    code = "import sys, tidegate.core.budget, tidegate.core.stages; print(*(n for n in sys.modules if n.startswith('tidegate.')))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = done.stdout.split()
    assert loaded
    assert all(name.startswith("tidegate.core") for name in loaded), loaded


