"""For one rich history: windows and cuts of every size, those first where behaviour changes.

Off-by-ones hide at single values. `TIDEGATE_CASES=50` tries every window, `TIDEGATE_CASES=5` every cut.
"""

from collections.abc import Callable, Sequence
from functools import cache
from itertools import accumulate, product

import msgspec
import pytest

from tests.laws.rich import NEWEST, RICH
from tests.laws.sampled_law import SAMPLES
from tests.laws.sessions import (
    WIRES,
    a_session,
    chat_texts,
    check_renderings,
    edits,
    fresh_rendering,
    strings,
    words,
)
from tests.laws.tape import Tape, check_view, shown
from tests.scale import FACTOR, mark_all_but, spread
from tidegate import Request, Session, presets
from tidegate.core.budget import MIN_ROOM, Budget, make_budget
from tidegate.core.edit_check import check_edits
from tidegate.core.edits import Edit, Insert
from tidegate.core.errors import TooSmall
from tidegate.core.messages import SUMMARY, is_user_request, user_message
from tidegate.core.outcome import Outcome, SummaryRequest
from tidegate.core.stages import STAGES
from tidegate.core.stages.repair import repair_view
from tidegate.core.tokens.counting import REQUEST_OVERHEAD, CharsPerToken
from tidegate.core.view import View
from tidegate.store.log import MemoryLog

SMALLEST = 1
LARGEST = 3_001
WINDOWS = range(SMALLEST, LARGEST + 1)
HUGE = (3_500, 4_000, 5_000, 6_000, 8_000, 16_000, 200_000)


@cache
def recorded() -> tuple[bytes, ...]:
    """The history as a log, so that each window only has to read it."""
    session = a_session("default", window=None, wire="openai_chat")
    session.add(*RICH)
    assert isinstance(session.log, MemoryLog)
    return session.log.records()


class JudgedViews:
    """The views that were found valid for all wires. A view that many windows share is judged once."""

    def __init__(self) -> None:
        self._valid: set[bytes] = set()

    def check(self, view: View) -> None:
        key = msgspec.msgpack.encode([(item.message, item.signed) for item in view.items])
        if key not in self._valid:
            check_renderings(view)
            self._valid.add(key)


def brief(request: SummaryRequest) -> str:
    """Quicker than the deterministic summarizer, which reads every word: that one has every tenth window."""
    return f"{len(request.messages)} messages were said before."


def prepared(preset: str, window: int) -> tuple[Session, Request | TooSmall]:
    """The session of the history in a window, and its request or the refusal."""
    session = a_session(preset, window=window, wire="openai_chat", log=MemoryLog(recorded()))
    try:
        return session, session.prepare(None if window % 10 == 0 else brief)
    except TooSmall as refusal:
        return session, refusal


def check_window(preset: str, window: int, judged: JudgedViews) -> bool:
    """Whether the history could be fitted; if not, the refusal must be right."""
    session, request = prepared(preset, window)
    if isinstance(request, TooSmall):
        check_refusal(request, session.view, window)
        return False
    budget = session.budget
    assert request.tokens <= budget.capacity <= window
    assert sum(map(len, chat_texts(request.body))) / 4 <= budget.limit
    check_view(session.view)
    assert not session.view.unanswered
    assert not session.view.orphans
    judged.check(session.view)
    assert any(NEWEST in text for text in strings(request.messages)), "the newest request is not whole"
    assert all(session.recall(f"m{place}") for place in said_places())
    return True


def check_refusal(refusal: TooSmall, view: View, window: int) -> None:
    assert refusal.remedy
    assert view.fixed_tokens + REQUEST_OVERHEAD + MIN_ROOM > window, "refused though there is room"


@cache
def said_places() -> tuple[int, ...]:
    first = len(recorded()) - len(RICH) + 1
    return tuple(range(first, first + len(RICH)))


# --- every window -----------------------------------------------------------------------------------------------------


def borders(preset: str) -> set[int]:
    """The windows in which other stages act than in the window ten tokens smaller, and where the first request fits.

    They are found by halving: the windows between two that are fifty tokens apart are alike if the two are.
    """

    @cache
    def behaviour(window: int) -> tuple[str, ...]:
        session, request = prepared(preset, window)
        return ("refused",) if isinstance(request, TooSmall) else tuple(edited.stage for edited in edits(session))

    found = set()
    ranges = [(low, low + 50) for low in range(SMALLEST, LARGEST, 50)]
    while ranges:
        low, high = ranges.pop()
        if behaviour(low) == behaviour(high):
            continue
        if high - low == 10:
            found.add(high)
            continue
        middle = (low + high) // 20 * 10 + 1
        ranges += [(low, middle), (middle, high)]
    return found


def near_borders(preset: str) -> list[int]:
    """Every window within a step of the halving of a border."""
    return sorted({window for border in borders(preset) for window in range(border - 10, border + 1)})


@pytest.mark.parametrize("preset", mark_all_but(presets.preset_names(), "default"))
def test_windows_where_behaviour_changes(preset: str) -> None:
    """Every integer around the windows in which another stage begins to act, and some between them."""
    check_windows(preset, sorted({*near_borders(preset), *spread(WINDOWS, 10), *HUGE}))


@pytest.mark.exhaustive
@pytest.mark.parametrize("preset", presets.preset_names())
def test_every_window(preset: str) -> None:
    """Windows of every size; all of them with `TIDEGATE_CASES=50`."""
    check_windows(preset, spread(WINDOWS, 60))


def check_windows(preset: str, windows: Sequence[int]) -> None:
    judged = JudgedViews()
    fitted = [check_window(preset, window, judged) for window in windows]
    first = fitted.index(True)
    assert windows[first] > 100, "nothing was refused"
    assert all(fitted[first:]), "a larger window was refused"


# --- every cut --------------------------------------------------------------------------------------------------------


@cache
def told() -> Tape:
    tape = Tape()
    for message in RICH:
        tape.say(message)
    return tape


@cache
def prefix(length: int) -> Tape:
    """The first messages of the history, mended as a session would. To be read only."""
    tape = Tape(told().events[:length])
    mended = repair_view(tape.view)
    if mended.edits:
        tape.edit(mended.edits, stage="repair")
    return tape


def budget_for(view: View) -> Budget:
    return make_budget(view, window=100_000, reserve=0, counter=CharsPerToken(4))


def cut(length: int, stage: str, settings: dict[str, object]) -> tuple[View, View]:
    """The view of a prefix before and after one stage; what it asks a model for is filled in."""
    tape = prefix(length)
    outcome: Outcome = STAGES[stage](tape.view, budget_for(tape.view), **settings)
    asked: list[Edit] = [Insert(user_message("sum", SUMMARY), request.after_id) for request in outcome.requests]
    edits = (*asked, *outcome.edits)
    if not edits:
        return tape.view, tape.view
    check_edits(tape.view, edits)
    other = Tape(tape.events)
    other.edit(edits, stage=stage)
    return tape.view, other.view


def lengths(sample: str) -> list[int]:
    """Of how many messages the prefixes are that are cut. `TIDEGATE_CASES=5` takes all."""
    return spread(range(len(RICH) + 1), 4 if sample == "few" else 15)


def cuts(sample: str, length: int, most: int) -> list[int]:
    """Which cuts of a prefix are tried, from 0 to `most`.

    All, if the sample has few prefixes. If it has many: those at both ends, and every fourth between, which are others
    from prefix to prefix. `TIDEGATE_CASES=4` takes all of them.
    """
    step = 1 if sample == "few" else max(1, 4 // FACTOR)
    ends = (0, 1, most - 2, most - 1, most)
    return [number for number in range(most + 1) if number in ends or (number + length) % step == 0]


def check_cut(before: View, after: View, judged: JudgedViews) -> None:
    check_view(after)
    assert not after.unanswered
    assert not after.orphans
    assert after.newest_request == before.newest_request
    kept = {item.message.id: item.message for item in before.items}
    for item in after.items:
        if item.message.id == before.newest_request:
            assert item.message == kept[item.message.id]
    judged.check(after)


def tail_of(view: View, ids: list[str]) -> list[str]:
    """What is left of the said messages, without the newest request, which stays wherever it stands."""
    return [ident for ident in shown(view) if ident in set(ids) and ident != view.newest_request]


def is_suffix(before: View, after: View) -> bool:
    every = [ident for ident in shown(before) if ident != before.newest_request]
    left = tail_of(after, every)
    return left == every[len(every) - len(left) :]


BY_MESSAGES: tuple[Callable[[int], tuple[str, dict[str, object]]], ...] = (
    lambda keep: ("keep_recent", {"messages": keep}),
    lambda keep: ("summarize", {"keep_messages": keep, "max_tokens": 100}),
)


@SAMPLES
@pytest.mark.parametrize("make", BY_MESSAGES, ids=["keep_recent", "summarize"])
def test_every_cut_by_messages(make: Callable[[int], tuple[str, dict[str, object]]], sample: str) -> None:
    """For prefixes of all lengths and all numbers of messages to keep: a whole suffix stays, of at least so many."""
    judged = JudgedViews()
    for length in lengths(sample):
        for keep in cuts(sample, length, length + 1):
            before, after = cut(length, *make(keep))
            check_cut(before, after, judged)
            assert is_suffix(before, after)
            left = len(tail_of(after, shown(before)))
            assert left >= min(keep, before.message_count) - 1, "fewer were kept than asked for"


@SAMPLES
def test_every_cut_by_tokens(sample: str) -> None:
    """For prefixes of all lengths and places where one group more fits, at it and right below."""
    judged = JudgedViews()
    for length in lengths(sample):
        view = prefix(length).view
        totals = list(accumulate(item.tokens for item in reversed(view.items)))
        chosen = [totals[at] for at in cuts(sample, length, len(totals) - 1)]
        for tokens in {0, 1, *chosen, *(total - 1 for total in chosen)}:
            before, after = cut(length, "keep_recent", {"tokens": tokens})
            check_cut(before, after, judged)
            assert is_suffix(before, after)


@SAMPLES
def test_every_cut_by_turns(sample: str) -> None:
    judged = JudgedViews()
    for length in lengths(sample):
        turns = prefix(length).view.visible_turns
        for keep in cuts(sample, length, turns + 1):
            before, after = cut(length, "drop_turns", {"keep": keep})
            check_cut(before, after, judged)
            assert after.visible_turns == min(turns, max(1, keep))
            before, after = cut(length, "summarize", {"keep_turns": keep, "max_tokens": 100})
            check_cut(before, after, judged)
            assert after.visible_turns == min(turns, max(1, keep))


@SAMPLES
def test_every_share_of_the_oldest(sample: str) -> None:
    judged = JudgedViews()
    for length in lengths(sample):
        for percent in range(0, 101, 10):
            before, after = cut(length, "drop_oldest", {"share": percent / 100})
            check_cut(before, after, judged)
            assert is_suffix(before, after)


@SAMPLES
@pytest.mark.parametrize("stage", ["clear_results", "archive_results"])
def test_every_number_of_results_to_keep(stage: str, sample: str) -> None:
    judged = JudgedViews()
    for length in lengths(sample):
        results = prefix(length).view.tool_result_count
        for keep in cuts(sample, length, results + 1):
            settings: dict[str, object] = {"keep": keep} if stage == "clear_results" else {"cutoff": keep}
            before, after = cut(length, stage, settings)
            check_cut(before, after, judged)
            if stage == "clear_results":
                assert shown(after) == shown(before), "clearing results dropped a message"


def test_every_prefix_is_valid_and_holds_every_word() -> None:
    """A window nobody could fill: the history goes out as it is, mended, at every point of it, for every wire."""
    for length, wire in product(range(len(RICH) + 1), WIRES):
        view = prefix(length).view
        rendering = fresh_rendering(view, wire)
        assert rendering.faults() == []
        found = "\0".join(strings(rendering.body()))
        for item in view.items:
            assert all(text in found for text in words(item.message)), item.message


def test_the_newest_request_is_where_it_should_be() -> None:
    """The history itself: the tests above say nothing if it lost its features."""
    assert 55 <= len(RICH) <= 70
    assert sum(map(is_user_request, RICH)) > 10
    view = prefix(len(RICH)).view
    assert view.tokens > LARGEST
    assert NEWEST in words(next(i.message for i in view.items if i.message.id == view.newest_request))
