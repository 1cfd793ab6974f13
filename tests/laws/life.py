"""One session's life as a state machine: anything is said and done, in any order, and the laws hold throughout."""

import msgspec
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from tests.laws.conversations import Move, Player, Say, a_move, a_turn
from tests.laws.forms import anthropic_form, openai_form
from tests.laws.sessions import (
    WIRES,
    Clock,
    a_session,
    check_extends,
    check_new_edits,
    check_request,
    edits,
    hostile,
    reopened,
    said,
    sound,
)
from tests.laws.tape import check_view
from tidegate import Call, Message, Request
from tidegate.core.budget import MIN_ROOM
from tidegate.core.errors import GiveUp, TooSmall
from tidegate.core.messages import texts_of
from tidegate.core.policy.policy import Moment
from tidegate.core.tokens.counting import REQUEST_OVERHEAD
from tidegate.wire.parsing import is_object_text

WINDOWS = (190, 260, 400, 700, 1_200, 2_000, 3_000, 9_000, 60_000, None)
FORMS = ("neutral", "openai", "anthropic")


class Life(RuleBasedStateMachine):
    """One session's life. What is checked after a request is in `sessions.check_request`."""

    def __init__(self, preset: str) -> None:
        super().__init__()
        self.preset = preset
        self.last: Request | None = None
        self.epoch, self.fresh = -1, False

    @initialize(
        window=st.sampled_from(WINDOWS),
        wire=st.sampled_from(WIRES),
        form=st.sampled_from(FORMS),
        counting=st.sampled_from(("chars/4", "chars/4", "exact", "estimate")),
        whole=st.booleans(),
    )
    def start(self, window: int | None, wire: str, form: str, counting: str, whole: bool) -> None:
        self.clock = Clock()
        self.session = a_session(self.preset, window=window, wire=wire, counting=counting, clock=self.clock)
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

    @rule(moves=a_turn(3_000), summarize=st.sampled_from((None, hostile)))
    def work(self, moves: list[Move], summarize: object) -> None:
        """An agent asks before every answer."""
        for move in moves:
            if isinstance(move, Say) and move.role == "assistant":
                self.prepare(summarize)
            self.say([move])

    def say(self, moves: list[Move]) -> None:
        messages = [message for move in moves for message in self.player.play(move)]
        before = set(said(self.session))
        self.clock.now += 7.0
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

    @rule(summarize=st.sampled_from((None, hostile)))
    def ask(self, summarize: object) -> None:
        self.prepare(summarize)

    def prepare(self, summarize: object) -> None:
        start = self.session.log.head
        try:
            request = self.session.prepare(summarize)  # type: ignore[arg-type]
        except TooSmall as refusal:
            self.too_small(refusal)
            return
        self.judge(request, start)
        done = edits(self.session)
        again = reopened(self.session, self.counting, self.clock)
        for session in (self.session, again):
            assert session.prepare().to_bytes() == request.to_bytes(), "a second prepare gives another request"
            assert edits(session) == done, "a second prepare found something to do"
        head = self.session.log.head
        self.session.prepare()
        assert self.session.log.head == head, "it still tries what made no progress"

    @rule()
    def overflowed(self) -> None:
        start = self.session.log.head
        tries = self.session.recovery.refusals
        try:
            request = self.session.overflowed()
        except TooSmall as refusal:
            self.too_small(refusal)
        except GiveUp as refusal:
            self.gave_up(refusal, tries)
        else:
            assert tries < 2
            self.judge(request, start)

    @rule(moment=st.sampled_from(("turn_end", "manual", "restore")))
    def run(self, moment: Moment) -> None:
        start = self.session.log.head
        try:
            self.session.run_rules(moment)
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
        getattr(self.session.history, topic)()

    @rule(text=st.sampled_from(("", "Be brief.", "Be thorough. " * 20)))
    def set_system(self, text: str) -> None:
        self.session.set_system(text)

    @rule()
    def reopen(self) -> None:
        """The next request must extend the last one as if nothing had happened; only `shared` begins anew."""
        self.session = reopened(self.session, self.counting, self.clock)
        self.fresh = True

    # --- what holds -----------------------------------------------------------------------------------------------

    def too_small(self, refusal: TooSmall) -> None:
        view, window = self.session.view, self.session.window
        assert refusal.remedy
        assert window is not None
        scale = view.scale_by_model.get(self.session.model, 1.0)
        assert (view.fixed_tokens + REQUEST_OVERHEAD + MIN_ROOM + 1) * scale > window, "refused though there is room"

    def gave_up(self, refusal: GiveUp, tries: int) -> None:
        assert refusal.remedy
        assert tries == min(2, self.session.policy.recoveries)

    def judge(self, request: Request, start: int) -> None:
        check_request(self.session, request)
        check_new_edits(self.session, start)
        again = reopened(self.session, self.counting, self.clock)
        assert again.render_request().to_bytes() == request.to_bytes(), "a session opened again gives another request"
        assert again.tokens == request.tokens
        assert f"{request.tokens:,}" in str(self.session.explain()), "another size is explained than was measured"
        if self.last is not None:
            assert (
                self.fresh
                or request.messages[: request.shared_messages] == self.last.messages[: request.shared_messages]
            )
            if self.epoch == self.session.view.prefix_seq:
                check_extends(self.last.messages, request.messages)
        self.last, self.fresh = request, False
        self.epoch = self.session.view.prefix_seq

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


def check_kept(message: Message, original: Message) -> None:
    """What is in the log is what was handed in; only arguments that are no JSON object are mended on the way."""
    assert len(message.parts) == len(original.parts)
    for part, other in zip(message.parts, original.parts, strict=True):
        if isinstance(part, Call) and isinstance(other, Call) and not is_object_text(other.arguments):
            assert is_object_text(part.arguments)
            part = msgspec.structs.replace(part, arguments=other.arguments)
        assert part == other


def written(messages: list[Message]) -> list[str]:
    return [text for message in messages for text in texts_of(message) if text]
