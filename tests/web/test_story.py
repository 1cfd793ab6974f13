"""What a page is made of, without a browser: the requests are those that were sent, the sums are the log's."""

import json
from itertools import pairwise
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.session.noted import begin, fill, fill_until_sweep, make_session, take, write_answer
from tests.web.sample_sessions import SECRET, lived
from tidegate.core.events import ViewEdited
from tidegate.core.messages import STATE_NOTE
from tidegate.core.text.secrets import SecretMask
from tidegate.session.request import list_sent_requests, render_past_request
from tidegate.session.session import Session
from tidegate.store.log import MemoryLog
from tidegate.web.category_shares import CHART_CATEGORIES, scale_counts
from tidegate.web.request_history import read_request_history
from tidegate.web.session_story import SessionStory, read_session_story, thin_rows
from tidegate.web.text_pool import MAX_POOL_TEXT_CHARS, TextPool


def body_of(story: SessionStory, state: int) -> dict[str, Any]:
    """A request put together again from what the page holds, as its script does it."""
    values = [msgspec.json.decode(value) for value in story.pool.bound_texts(10**9).values]
    places: list[int] = []
    for each in story.states[: state + 1]:
        places = [*places[: each.kept], *each.added, *(places[-each.tail :] if each.tail else [])]
    last = story.states[state]
    return {**values[last.head], last.key: [values[place] for place in places]}


@pytest.mark.parametrize(
    ("model", "wire"),
    [("gpt-4o", ""), ("claude-sonnet-4-5", ""), ("gemini-2.5-pro", ""), ("gpt-4o", "openai_responses")],
)
def test_each_request_can_be_put_together_again(model: str, wire: str) -> None:
    made = lived(4, model=model, wire=wire)
    story = read_session_story(made.log, str)
    assert [row.request.head for row in story.rows] == list(made.bodies)
    for row in story.rows[::4]:
        assert body_of(story, row.state) == json.loads(made.bodies[row.request.head])


def test_sizes_are_those_reported_and_shares_add_up() -> None:
    made = lived()
    story = read_session_story(made.log, str, window=5_000)
    for row, sent in zip(story.rows, list_sent_requests(made.log), strict=True):
        assert (row.total, row.model, row.window) == (sent.input_tokens, sent.model, 5_000)
        assert sum(row.category_tokens) == row.total
        assert len(row.category_tokens) == len(CHART_CATEGORIES)
    assert story.rows[-1].category_tokens[CHART_CATEGORIES.index("rules")] > 0
    assert all(row.category_tokens[CHART_CATEGORIES.index("tools")] > 0 for row in story.rows)


def test_before_and_after_are_the_requests_around_an_edit() -> None:
    made = lived()
    story = read_session_story(made.log, str)
    edits = {event.seq: event.payload for event in made.log.read() if isinstance(event.payload, ViewEdited)}
    assert len(story.changes) == len(story.comparisons)
    rows = zip(story.changes, story.comparisons, strict=True)
    shown = [(change, comparison) for change, comparison in rows if change.is_edit]
    assert [change.seq for change, _ in shown] == list(edits)
    assert sum(change.is_undone for change, _ in shown) == 1
    for change, comparison in shown[::3]:
        assert body_of(story, comparison.before) == render_past_request(made.log, change.seq - 1).body
        assert body_of(story, comparison.after) == render_past_request(made.log, change.seq).body
        edit = edits[change.seq]
        assert (change.tokens_before, change.tokens_after) == (edit.tokens_before, edit.tokens_after)
        assert change.request_before == render_past_request(made.log, change.seq - 1).tokens
        assert change.request_after == render_past_request(made.log, change.seq).tokens


def test_requests_that_nobody_reported_are_told_from_their_answers() -> None:
    made = lived(report=False)
    story = read_session_story(made.log, str)
    assert [row.request.head for row in story.rows] == list(made.bodies)
    assert all(row.request.used is None and not row.request.cost.is_priced for row in story.rows)
    row = story.rows[7]
    assert row.total == render_past_request(made.log, row.request.head).tokens


def test_a_report_before_or_behind_its_answer_is_of_one_request() -> None:
    log = MemoryLog()
    session = Session("gpt-4o", log=log, window=9_000)
    for early in (True, False, True, False):
        session.add({"role": "user", "content": "go on"})
        session.prepare()
        usage, answer = {"prompt_tokens": 50, "completion_tokens": 5}, {"role": "assistant", "content": "done"}
        if early:
            session.record(usage)
        session.add(answer)
        if not early:
            session.record(usage)
    found = read_request_history(log).requests
    assert len(found) == 4
    assert all(each.used is not None and each.head < each.answer_seq for each in found)


def test_what_was_paid_beside_the_conversation_is_counted() -> None:
    made = lived.__wrapped__(1)  # a log of its own, to write to
    session = Session("gpt-4o", log=made.log)
    session.history.add_note("spent", '{"model": "gpt-4o", "usage": [1000000, 0, 0, 0]}')
    session.history.add_note("spent", '{"model": "nobody-knows", "usage": [10, 5, 0, 0]}')
    session.history.add_note("spent", "somebody else's note")
    beside = read_session_story(made.log, str).side_spending
    assert (beside.calls, beside.tokens, beside.unpriced) == (2, 1_000_015, 15)
    assert beside.dollars == pytest.approx(2.5)


def test_only_the_newest_can_be_opened_if_there_are_too_many() -> None:
    made = lived()
    story = read_session_story(made.log, str, max_requests=10)
    opened = [row.state >= 0 for row in story.rows]
    assert opened == [False] * (len(opened) - 10) + [True] * 10
    assert any("newest 10 of" in line for line in story.omissions)
    last = story.rows[-1]
    assert body_of(story, last.state) == json.loads(made.bodies[last.request.head])


def test_the_texts_stay_within_their_bound_and_every_message_is_still_there() -> None:
    pool = TextPool(str)
    sizes = [10, 500, 90_000, 250_000, 40]
    for size in sizes:
        pool.add(msgspec.json.encode({"role": "user", "content": "word " * (size // 5)}))
    whole = pool.bound_texts(10**9)
    assert whole.max_chars == MAX_POOL_TEXT_CHARS
    assert pool.cut_texts == 1
    assert len(msgspec.json.decode(whole.values[2])["content"]) == 90_000
    assert "150,000 characters are left out" in msgspec.json.decode(whole.values[3])["content"]
    tight = pool.bound_texts(20_000)
    assert sum(map(len, tight.values)) <= 40_000
    assert [msgspec.json.decode(value)["role"] for value in tight.values] == ["user"] * 5
    assert tight.values[0] == whole.values[0]
    assert tight.max_chars < 10_000


def test_a_value_of_too_many_pieces_is_bounded_too() -> None:
    pool = TextPool(str)
    pool.add(msgspec.json.encode({"role": "tool", "content": [{"type": "text", "text": "abc"}] * 8_000}))
    (value,) = pool.bound_texts(10**9).values
    assert len(value) <= 2 * MAX_POOL_TEXT_CHARS
    assert msgspec.json.decode(value)["role"] == "tool"


def test_secrets_are_masked_before_anything_is_cut() -> None:
    pool = TextPool(SecretMask([SECRET]))
    text = "x " * (MAX_POOL_TEXT_CHARS // 3) + SECRET + " y" * MAX_POOL_TEXT_CHARS
    pool.add(msgspec.json.encode({"role": "user", "content": text}))
    pool.add(msgspec.json.encode({"role": "user", "content": f"password={SECRET}"}))
    for limit in (10**9, 2_000):
        assert SECRET[:6] not in b"".join(pool.bound_texts(limit).values).decode()
    assert pool.masker.count == 2


def test_pictures_are_told_by_their_length() -> None:
    pool = TextPool(str)
    url = "data:image/png;base64," + "iVBORw0KGgo" * 900
    pool.add(msgspec.json.encode({"role": "user", "content": [{"type": "image_url", "image_url": {"url": url}}]}))
    (value,) = pool.bound_texts(10**9).values
    assert f"[{len(url):,} characters of base64" in value.decode()
    assert pool.omitted_blobs == 1


@given(st.lists(st.integers(0, 10**6), min_size=1, max_size=12), st.integers(0, 10**7))
def test_scaled_shares_have_the_sum_and_the_order(counts: list[int], total: int) -> None:
    parts = scale_counts(counts, total)
    if sum(counts):
        assert sum(parts) == total
        order = sorted(range(len(counts)), key=counts.__getitem__)
        assert all(parts[low] <= parts[high] + 1 for low, high in pairwise(order))


def test_thinned_keeps_the_fullest_and_the_last() -> None:
    rows = read_session_story(lived().log, str).rows
    few = thin_rows(rows, 10)
    assert len(few) <= 11
    assert few[-1] is rows[-1]
    assert max(row.total for row in few) == max(row.total for row in rows)
    assert thin_rows(rows, 10**6) is rows


def test_an_empty_log_is_no_trouble() -> None:
    story = read_session_story(MemoryLog(), str)
    assert (story.rows, story.changes, story.states) == ([], [], [])


def test_a_state_note_says_what_changed_since_the_one_before() -> None:
    session = make_session()
    notes = begin(session)
    number = fill(session, notes)
    take(notes, write_answer(state="- reading\n- remaining: `src/part_1.py`"))
    fill_until_sweep(session, number)
    fill(session, notes, number + 60)
    take(notes, write_answer(state="- reading\n- done [m4]"))
    story = read_session_story(session.log, str)
    rows = zip(story.changes, story.comparisons, strict=True)
    first, second = (comparison for change, comparison in rows if change.name == STATE_NOTE)
    assert first.note is not None
    assert second.note is not None
    assert not any(line.is_new for section in first.note.sections for line in section.statements)
    (state,) = second.note.sections
    assert [(line.text, line.is_new) for line in state.statements] == [("- reading", False), ("- done [m4]", True)]
    assert state.removed == ("- remaining: `src/part_1.py`",)
    assert second.note.list_sources() == ["m4"]
    texts = story.pool.bound_texts(10**9).values
    assert b"def step_0_3()" in texts[second.sources["m4"]]
