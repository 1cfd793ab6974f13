"""The life of kept sessions as a state machine: anything is said and done in any order, with crashes in between.

What holds is judged against a simple model (`tests/crash/keeping.py`).
"""

from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from tests.crash.harness import workplace
from tests.crash.keeping import Known, Place
from tests.laws.conversations import Move, Player, Say, a_move, a_turn, law
from tests.laws.sessions import check_renderings, said, sound
from tidegate import presets
from tidegate.core.errors import GiveUp, TooSmall
from tidegate.core.messages import Image, Message, Part, Result, Text
from tidegate.core.policy.policy import Moment, Policy
from tidegate.datafolder.archive.transfer import export_session, import_session
from tidegate.datafolder.forget.forget import forget_message, forget_words
from tidegate.datafolder.removal import get_retention_days, remove_session

WINDOWS = (400, 700, 1_200, 3_000)
POLICIES = ("default", "jutul", "cowagent", "digitorn")
MOST = 4
"""Sessions beside each other at one time."""


@cache
def loaded(name: str) -> Policy:
    return presets.load(name, {"max_context_turns": 3} if name == "cowagent" else None)


def sizeless(message: Message) -> Message:
    """Without the size of pictures: an import measures it again, and what was said of it may be wrong."""

    def cleared(part: Part) -> Part:
        if isinstance(part, Result):
            return msgspec.structs.replace(part, parts=tuple(map(cleared, part.parts)))
        return msgspec.structs.replace(part, width=0, height=0) if isinstance(part, Image) else part

    return msgspec.structs.replace(message, parts=tuple(map(cleared, message.parts)))


class KeptLife(RuleBasedStateMachine):
    def __init__(self, folder: Path) -> None:
        super().__init__()
        self.folder = folder
        self.words = self.made = 0

    @initialize(policy=st.sampled_from(POLICIES), window=st.sampled_from(WINDOWS), whole=st.booleans())
    def start(self, policy: str, window: int, whole: bool) -> None:
        self.player = Player(whole=whole)
        self.at = Place(self.folder / f"life {sum(1 for _ in self.folder.iterdir())}", loaded(policy), window)

    def teardown(self) -> None:
        if hasattr(self, "at"):
            self.at.crash()
            self.at.end()

    # --- opening and leaving --------------------------------------------------------------------------------------

    @rule()
    def reopen(self) -> None:
        self.at.again(self.at.close)

    @rule()
    def crash_and_reload(self) -> None:
        self.at.again(self.at.die)

    # --- what is said ---------------------------------------------------------------------------------------------

    @rule(moves=st.lists(a_move(huge=3_000), min_size=1, max_size=4))
    def anything(self, moves: list[Move]) -> None:
        self.say(moves)

    @rule(turns=st.lists(a_turn(1_500), min_size=1, max_size=4))
    def work(self, turns: list[list[Move]]) -> None:
        """An agent asks before every answer."""
        for move in (move for turn in turns for move in turn):
            if isinstance(move, Say) and move.role == "assistant":
                self.prepare()
            self.say([move])

    @rule(letter=st.sampled_from("xyz"))
    def large(self, letter: str) -> None:
        """Larger than what stands in the log itself."""
        self.say([Say("user", (Text(letter * 270_000),))])

    def say(self, moves: list[Move]) -> None:
        messages = [message for move in moves for message in self.player.play(move)]
        ids = self.at.session.add(*messages)
        self.at.learn()
        for ident, message in zip(ids, messages, strict=True):
            kept, wanted = self.at.known[self.at.name].said[ident], sound(message)
            assert (kept.role, len(kept.parts)) == (wanted.role, len(wanted.parts))
            assert [p for p in kept.parts if isinstance(p, Text)] == [p for p in wanted.parts if isinstance(p, Text)]

    # --- what is done ---------------------------------------------------------------------------------------------

    @rule()
    def prepare(self) -> None:
        self.run(lambda: self.at.session.prepare(lambda request: f"{len(request.messages)} messages."))

    @rule()
    def overflowed(self) -> None:
        self.run(self.at.session.overflowed)

    @rule(moment=st.sampled_from(("manual", "turn_end")))
    def moment(self, moment: Moment) -> None:
        self.run(lambda: self.at.session.run_rules(moment))

    def run(self, act: Callable[[], Any]) -> None:
        try:
            request = act()
        except (TooSmall, GiveUp):
            return
        if not isinstance(request, list):
            assert request.tokens <= self.at.window
            assert request.to_bytes() == self.at.sent()
            check_renderings(self.at.session.view)

    @rule(topic=st.sampled_from(("undo", "redo", "clear")))
    def take_back(self, topic: str) -> None:
        getattr(self.at.session.history, topic)()

    @rule(percent=st.sampled_from((30, 90, 120, 300)))
    def record(self, percent: int) -> None:
        size = self.at.session.view.tokens * percent // 100
        self.at.session.record({"prompt_tokens": size, "completion_tokens": 5})

    # --- other sessions -------------------------------------------------------------------------------------------

    def another(self) -> str:
        self.made += 1
        return f"session {self.made}"

    @precondition(lambda self: len(self.at.known) < MOST and self.at.session.log.head)
    @rule(share=st.floats(0.01, 1.0))
    def fork(self, share: float) -> None:
        """A fork is what its source was at that place; then it goes its own way."""
        self.at.learn()
        source, new = self.at.known[self.at.name], self.another()
        at = max(1, round(share * len(source.records)))
        self.at.data.fork(self.at.name, at, new)
        mine = self.at.known[new] = Known()
        mine.records = source.records[:at]
        mine.said = {ident: message for ident, message in source.said.items() if int(ident[1:]) <= at}
        mine.forgotten = source.forgotten & mine.said.keys()

    @precondition(lambda self: len(self.at.known) < MOST and self.at.session.log.head)
    @rule()
    def carry_over(self) -> None:
        """Out into one file and in again: the same log."""
        self.at.learn()
        new = self.another()
        file = self.folder / "exported"
        export_session(self.at.data, self.at.name, file)
        assert import_session(self.at.data, file, new, trust=True) == new
        self.at.known[new] = Known()
        source, here = self.at.known[self.at.name], self.at.name
        self.at.session.close()
        self.at.enter(new)
        mine = self.at.known[new]
        assert mine.said == said(self.at.session)
        assert mine.said.keys() == source.said.keys()
        for ident, message in source.said.items():
            assert ident in source.forgotten or sizeless(mine.said[ident]) == sizeless(message)
        mine.forgotten = set(source.forgotten)
        self.at.session.close()
        self.at.enter(here)

    @precondition(lambda self: len(self.at.known) > 1)
    @rule(which=st.integers(0, MOST))
    def turn_to(self, which: int) -> None:
        self.at.session.close()
        self.at.enter(sorted(self.at.known)[which % len(self.at.known)])
        self.at.check_all()

    # --- what leaves ----------------------------------------------------------------------------------------------

    @precondition(lambda self: self.at.known[self.at.name].said)
    @rule(which=st.integers(0, 50))
    def forget_one(self, which: int) -> None:
        known = self.at.known[self.at.name]
        ident = sorted(known.said)[which % len(known.said)]
        self.at.forget({ident}, lambda: forget_message(self.at.data, self.at.name, ident))

    @rule()
    def forget_a_word(self) -> None:
        """A word that stands in one message, or was in none."""
        self.words += 1
        word = f"sesame{self.words}q"
        self.say([Say("user", (Text(f"open {word} please"),))])
        ident = list(self.at.known[self.at.name].said)[-1]
        self.run(self.at.session.prepare)
        self.at.forget({ident}, lambda: forget_words(self.at.data, self.at.name, word))
        assert word not in "".join(str(event.payload) for event in self.at.session.log.read())

    @precondition(lambda self: len(self.at.known) > 1)
    @rule()
    def remove_another(self) -> None:
        name = next(name for name in sorted(self.at.known) if name != self.at.name)
        remove_session(self.at.data, name)
        self.at.gone(name)

    @rule(days=st.sampled_from((1, 29, 31)))
    def days_pass(self, days: int) -> None:
        """What is opened stays, whatever its age; of the others, those go whose days are over, and no more."""
        used = {info.name: info.used for info in self.at.data.store.sessions()}
        self.at.now += days * 86_400
        over = {
            name
            for name in self.at.known
            if (kept := get_retention_days(self.at.data, name))
            and name != self.at.name
            and self.at.now - used[name] > kept * 86_400
        }
        self.at.close()
        self.at.enter(self.at.name)
        assert {removed.session for removed in self.at.data.removed_sessions} == over
        for name in over:
            self.at.gone(name)

    # --- what always holds ----------------------------------------------------------------------------------------

    @invariant()
    def nothing_is_lost(self) -> None:
        if not hasattr(self, "at"):
            return
        self.at.learn()
        assert {info.name for info in self.at.data.store.sessions()} == self.at.known.keys()


@pytest.mark.exhaustive
def test_any_life_of_kept_sessions() -> None:
    with workplace() as folder:
        machine: Any = lambda: KeptLife(folder)  # noqa: E731 - what it wants is anything that makes a machine
        run_state_machine_as_test(machine, settings=settings(law(10), stateful_step_count=40))
