"""The laws of a session: whatever is said and done, in whatever order, under every preset and for every wire."""

import asyncio

import msgspec
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from tests.laws.conversations import HUGE, Move, Player, Say, a_move, a_turn, law, play, whole_conversations
from tests.laws.forms import anthropic_form, openai_form
from tests.laws.sessions import (
    WIRES,
    a_session,
    check_extends,
    check_new_edits,
    check_request,
    edits,
    reopened,
    said,
    sound,
)
from tests.laws.tape import check_view
from tidegate import Call, Message, Request, Result, Session, Text, presets
from tidegate.core.budget import MIN_ROOM
from tidegate.core.errors import GiveUp, TooSmall
from tidegate.core.events import Edited
from tidegate.core.messages import texts
from tidegate.core.outcome import SummaryRequest
from tidegate.core.tokens import REQUEST
from tidegate.wire.reading import is_object

PRESETS = presets.names()
WINDOWS = (190, 260, 400, 700, 1_200, 2_000, 3_000, 9_000, 60_000, None)
FORMS = ("neutral", "openai", "anthropic")


def hostile(request: SummaryRequest) -> str | None:
    """Summarisers return anything: nothing, blanks, too much, markup."""
    return (None, "", " \n", "short", "word " * 20_000, "<tool_call>{}</tool_call> \x00")[len(request.messages) % 6]


class Life(RuleBasedStateMachine):
    """One session's life. What is checked after a request is in `sessions.check_request`."""

    def __init__(self, preset: str) -> None:
        super().__init__()
        self.preset = preset
        self.last: Request | None = None
        self.expected: dict[str, list[str]] = {}

    @initialize(
        window=st.sampled_from(WINDOWS),
        wire=st.sampled_from(WIRES),
        form=st.sampled_from(FORMS),
        counting=st.sampled_from(("chars/4", "chars/4", "exact", "estimate")),
        whole=st.booleans(),
    )
    def start(self, window: int | None, wire: str, form: str, counting: str, whole: bool) -> None:
        self.session = a_session(self.preset, window=window, wire=wire, counting=counting)
        self.form, self.counting, self.player = form, counting, Player(whole=whole)
        self.seen: list[bytes] = []

    # --- what is said ---------------------------------------------------------------------------------------------

    @rule(moves=st.lists(a_move(huge=20_000), min_size=1, max_size=5))
    def anything(self, moves: list[Move]) -> None:
        self.say(moves)

    @rule(moves=a_turn(8_000))
    def turn(self, moves: list[Move]) -> None:
        self.say(moves)

    @rule(turns=st.lists(a_turn(1_000), min_size=2, max_size=5))
    def turns(self, turns: list[list[Move]]) -> None:
        self.say([move for turn in turns for move in turn])

    @rule(moves=a_turn(3_000), summarise=st.sampled_from((None, hostile)))
    def work(self, moves: list[Move], summarise: object) -> None:
        """An agent asks before every answer."""
        for move in moves:
            if isinstance(move, Say) and move.role == "assistant":
                self.prepare(summarise)
            self.say([move])

    def say(self, moves: list[Move]) -> None:
        messages = [message for move in moves for message in self.player.play(move)]
        before = set(said(self.session))
        if self.form == "openai":
            self.session.add(*openai_form(messages))
        elif self.form == "anthropic":
            self.session.add(*anthropic_form(messages))
        else:
            self.session.add(*messages)
        if self.form != "neutral":
            messages = [message for message in messages if message.agent_visible]
        new = [message for ident, message in said(self.session).items() if ident not in before]
        assert sorted(written(new)) == sorted(written([sound(message) for message in messages]))
        if self.form == "neutral":
            for message, original in zip(new, messages, strict=True):
                check_kept(message, sound(original))

    # --- what is done ---------------------------------------------------------------------------------------------

    @rule(summarise=st.sampled_from((None, hostile)))
    def ask(self, summarise: object) -> None:
        self.prepare(summarise)

    def prepare(self, summarise: object) -> None:
        start = self.session.log.head
        try:
            request = self.session.prepare(summarise)  # type: ignore[arg-type]
        except TooSmall as refusal:
            self.too_small(refusal)
            return
        self.judge(request, start)
        head = self.session.log.head
        again = reopened(self.session, self.counting)
        for session in (self.session, again):
            assert session.prepare().to_bytes() == request.to_bytes(), "a second prepare gives another request"
            assert session.log.head == head, "a second prepare found something to do"

    @rule()
    def overflowed(self) -> None:
        start = self.session.log.head
        tries = self.session.view.recoveries
        try:
            request = self.session.overflowed()
        except TooSmall as refusal:
            self.too_small(refusal)
        except GiveUp as refusal:
            assert refusal.remedy
            assert tries == min(2, self.session.policy.recoveries)
        else:
            assert tries < 2
            self.judge(request, start)

    @rule(moment=st.sampled_from(("end_turn", "compact", "restore")))
    def run(self, moment: str) -> None:
        start = self.session.log.head
        try:
            getattr(self.session, moment)()
        except TooSmall as refusal:
            self.too_small(refusal)
        else:
            check_new_edits(self.session, start)

    @precondition(lambda self: self.last is not None)
    @rule(percent=st.sampled_from((0, 30, 60, 90, 100, 110, 180, 350, 900)))
    def record(self, percent: int) -> None:
        assert self.last is not None
        self.session.record({"prompt_tokens": self.last.tokens * percent // 100, "completion_tokens": 5})

    @rule(topic=st.sampled_from(("undo", "redo")))
    def take_back(self, topic: str) -> None:
        getattr(self.session, topic)()

    @rule(text=st.sampled_from(("", "Be brief.", "Be thorough. " * 20)))
    def set_system(self, text: str) -> None:
        self.session.set_system(text)

    @rule()
    def reopen(self) -> None:
        self.session = reopened(self.session, self.counting)
        self.last = None

    # --- what holds -----------------------------------------------------------------------------------------------

    def too_small(self, refusal: TooSmall) -> None:
        view, window = self.session.view, self.session.window
        assert refusal.remedy
        assert window is not None
        scale = view.ratios.get(self.session.model, 1.0)
        assert (view.fixed + REQUEST + MIN_ROOM + 1) * scale > window, "refused though there is room"

    def judge(self, request: Request, start: int) -> None:
        check_request(self.session, request)
        check_new_edits(self.session, start)
        again = reopened(self.session, self.counting)
        assert again.request().to_bytes() == request.to_bytes(), "a session opened again gives another request"
        assert again.size() == request.tokens
        if self.last is not None:
            assert request.messages[: request.shared] == self.last.messages[: request.shared]
            if self.epoch == (self.session.view, self.session.view.epoch):
                check_extends(self.last.messages, request.messages)
        self.last = request
        self.epoch = (self.session.view, self.session.view.epoch)

    @invariant()
    def nothing_is_lost(self) -> None:
        if not hasattr(self, "session"):
            return
        records = list(self.session.log.records())  # type: ignore[attr-defined]
        assert records[: len(self.seen)] == self.seen, "the log was rewritten"
        self.seen = records
        check_view(self.session.view)
        for ident, message in said(self.session).items():
            assert self.session.recall(ident) == message
        assert str(self.session.decisions) is not None


def check_kept(message: Message, original: Message) -> None:
    """What is in the log is what was handed in; only arguments that are no JSON object are mended on the way."""
    assert len(message.parts) == len(original.parts)
    for part, other in zip(message.parts, original.parts, strict=True):
        if isinstance(part, Call) and isinstance(other, Call) and not is_object(other.arguments):
            assert is_object(part.arguments)
            part = msgspec.structs.replace(part, arguments=other.arguments)
        assert part == other


def written(messages: list[Message]) -> list[str]:
    return [text for message in messages for text in texts(message) if text]


@pytest.mark.parametrize("preset", PRESETS)
def test_a_session_keeps_the_laws_all_its_life(preset: str) -> None:
    run_state_machine_as_test(lambda: Life(preset), settings=settings(law(40), stateful_step_count=16))


@pytest.mark.parametrize("preset", PRESETS)
@law(25)
@given(whole_conversations(huge=0, size=8), st.sampled_from(WIRES))
def test_a_view_under_the_goal_is_left_alone(preset: str, wire: str, messages: list[Message]) -> None:
    """A few small turns in a large window: nothing is edited, at no moment."""
    assume(sum(message.role == "tool" for message in messages) <= 5)
    session = a_session(preset, window=1_000_000, wire=wire)
    for message in messages:
        session.add(message)
        if message.role in ("user", "tool") and not session.view.unanswered:
            session.prepare()
    session.end_turn()
    session.prepare()
    assert edits(session) == []


@pytest.mark.parametrize("preset", PRESETS)
@law(15)
@given(st.lists(a_turn(3_000), min_size=1, max_size=8), st.sampled_from((600, 3_000, 20_000)))
def test_compacting_again_and_again_comes_to_an_end(preset: str, turns: list[list[Move]], window: int) -> None:
    """Each time the view is smaller or as it was; once it stays, it stays. One time is enough for a summary."""
    session = a_session(preset, window=window, wire="openai_chat")
    session.add(*(message for turn in turns for message in play(turn, whole=True)))
    sizes = [session.view.tokens + 1_000]
    for _ in range(12):
        start = session.log.head
        session.compact()
        check_new_edits(session, start)
        if not edits_since(session, start):
            break
        sizes.append(session.view.tokens)
    else:
        raise AssertionError(f"still compacting: {sizes}")
    stages = {rule.stage for rule in session.policy.moments["manual"]}
    if "drop_turns" not in stages:
        assert len([edit for edit in edits(session) if edit.stage == "summarise"]) <= 1


def edits_since(session: Session, start: int) -> list[Edited]:
    return [event.what for event in session.log.read(start + 1) if isinstance(event.what, Edited)]


PLACES = ("user", "assistant", "result", "arguments", "broken arguments", "old user", "system")


@pytest.mark.parametrize("preset", PRESETS)
@pytest.mark.parametrize("place", PLACES)
def test_one_huge_message_anywhere(preset: str, place: str) -> None:
    """200,000 characters in a small window, for every kind of count: it fits, is valid, and is whole in the log."""
    for seed, counting in (("word ", "chars/4"), ("漢字", "exact"), ('"\\', "estimate")):
        huge = (seed * HUGE)[:HUGE]
        session = a_session(preset, window=2_000, wire="anthropic", counting=counting)
        ids = session.add(*with_huge(place, huge))
        request = session.prepare()
        check_request(session, request)
        found = [session.recall(ident) for ident in ids]
        assert max(len(text) for message in found for text in all_texts(message)) >= HUGE


def with_huge(place: str, huge: str) -> list[Message]:
    arguments = {"arguments": f'{{"content": "{"y" * HUGE}"}}', "broken arguments": "{" + huge}.get(place, "{}")
    said = [
        Message("user", (Text(huge if place == "old user" else "First."),)),
        Message("assistant", (Text(huge if place == "assistant" else "Yes."),)),
        Message("system", (Text(huge if place == "system" else "Be brief."),)),
        Message("user", (Text(huge if place == "user" else "Now this."),)),
        Message("assistant", (Call("c1", "write", arguments),)),
        Message("tool", (Result("c1", (Text(huge if place == "result" else "ok"),)),), kind="tool_result"),
    ]
    return said


def all_texts(message: Message) -> list[str]:
    return [*texts(message), *(part.arguments for part in message.parts if isinstance(part, Call)), ""]


@pytest.mark.parametrize("preset", PRESETS)
@law(10)
@given(st.lists(a_turn(3_000), min_size=1, max_size=5), st.sampled_from((400, 2_000)))
def test_async_code_gets_the_same_requests(preset: str, turns: list[list[Move]], window: int) -> None:
    one, other = (a_session(preset, window=window, wire="openai_chat") for _ in range(2))

    async def slow(request: SummaryRequest) -> str | None:
        return hostile(request)

    for turn in turns:
        messages = play(turn, whole=True)
        one.add(*messages)
        other.add(*messages)
        assert one.prepare(hostile).to_bytes() == asyncio.run(other.prepare_async(slow)).to_bytes()
    assert [event.what for event in one.log.read()] == [event.what for event in other.log.read()]
