"""Whatever is forgotten of whatever session: the log is still one, every request is valid and as small as it says."""

import random
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.laws.conversations import law, whole_conversations
from tests.laws.sessions import WIRES, a_session, check_request, said
from tidegate import Message, Session, presets
from tidegate.core.edits import Insert, Replace
from tidegate.core.events import Event, MessageAdded, NoteAdded, ViewEdited, encode_event
from tidegate.core.messages import Call, Part, Result, Text, Thinking, text_of
from tidegate.datafolder.forget.tombstones import MIN_FORGOTTEN_CHARS, TOMBSTONE, PhraseRemover, blank_event
from tidegate.store.log import MemoryLog

SEED = st.integers(0, 1 << 32).map(random.Random)


def lived(preset: str, messages: list[Message], wire: str) -> Session:
    session = a_session(preset, window=2_000, wire=wire)
    for message in messages:
        session.add(message)
        if message.role in ("user", "tool") and not session.view.unanswered:
            session.prepare()
    session.prepare()
    return session


def goes_on(session: Session, events: list[Event]) -> None:
    """A session from the log as it now is: it opens, undoes, redoes, takes the next words, and keeps the laws."""
    head = len(events)
    events = [*events, Event(head + 1, 0.0, NoteAdded("forgotten", "m1"))]
    log = MemoryLog(map(encode_event, events))
    again = Session(policy=session.policy, window=2_000, wire=session.dialect.name, count="chars/4", log=log)
    check_request(again, again.prepare())
    if again.history.undo() is not None:
        check_request(again, again.prepare())
        again.history.redo()
        check_request(again, again.prepare())
    again.add({"role": "user", "content": "go on"})
    check_request(again, again.prepare())


@pytest.mark.parametrize("preset", presets.preset_names())
@law(6)
@given(whole_conversations(huge=3_000, size=10), st.sampled_from(WIRES), SEED)
def test_messages_may_be_forgotten(preset: str, messages: list[Message], wire: str, dice: random.Random) -> None:
    session = lived(preset, messages, wire)
    known = sorted(said(session))
    ids = frozenset(dice.sample(known, min(len(known), 3)))
    before = list(session.log.read())
    events = [blank_event(event, ids) for event in before]
    assert [blank_event(event, ids) for event in events] == events, "once is enough"
    for old, new in zip(before, events, strict=True):
        assert (old.seq, old.time, type(old.payload)) == (new.seq, new.time, type(new.payload))
    goes_on(session, events)


@pytest.mark.parametrize("preset", presets.preset_names())
@law(6)
@given(whole_conversations(huge=3_000, size=10), st.sampled_from(WIRES), SEED)
def test_words_may_be_forgotten(preset: str, messages: list[Message], wire: str, dice: random.Random) -> None:
    session = lived(preset, messages, wire)
    texts = [text for message in said(session).values() if len(text := text_of(message).strip()) >= MIN_FORGOTTEN_CHARS]
    text = dice.choice([*texts, "nothing of this kind"])
    start = dice.randrange(len(text) - MIN_FORGOTTEN_CHARS + 1)
    piece = text[start : start + dice.choice((MIN_FORGOTTEN_CHARS, 12, 4_000))].strip()
    if len(piece) < MIN_FORGOTTEN_CHARS or PhraseRemover(piece).matches(TOMBSTONE):
        return
    words = PhraseRemover(piece)
    events = [words.remove_from_event(event) for event in session.log.read()]
    again = PhraseRemover(piece)
    assert [again.remove_from_event(event) for event in events] == events, "once is enough"
    assert [text for event in events for text in content(event) if piece in text] == []
    goes_on(session, events)


def content(event: Event) -> Iterator[str]:
    """All that someone said or wrote. Names of ours (kinds, stages, roles) are no content."""
    what = event.payload
    if isinstance(what, MessageAdded):
        yield from _of(what.message.parts)
    elif isinstance(what, ViewEdited):
        for edit in what.edits:
            yield from _of(edit.parts if isinstance(edit, Replace) else ())
            yield from _of(edit.message.parts if isinstance(edit, Insert) else ())
    elif isinstance(what, NoteAdded):
        yield what.text


def _of(parts: tuple[Part, ...]) -> Iterator[str]:
    for part in parts:
        if isinstance(part, Result):
            yield from _of(part.parts)
        elif isinstance(part, Call):
            yield from (part.id, part.name, part.arguments, part.opaque)
        elif isinstance(part, Thinking):
            yield from (part.text, part.block)
        else:
            yield part.text if isinstance(part, Text) else part.url
