"""Hand-made sessions where the right answer is known."""

import json
from typing import Any

import pytest

from tidegate.core.tokens.counting import CharsPerToken
from tidegate.lab.scoring.contender_request import ContenderRequest, SummaryUsage
from tidegate.lab.scoring.identifiers import find_identifiers, flatten_arguments
from tidegate.lab.scoring.input_bill import InputBill
from tidegate.lab.scoring.measures import MEASURES
from tidegate.lab.scoring.occurrences import contains_whole_name
from tidegate.lab.scoring.request_scorer import RequestScorer, ScoringTask, compute_unmanaged_cost, find_recall_calls
from tidegate.lab.scoring.request_size import UnitCounter
from tidegate.lab.scoring.session_figures import SessionFigures
from tidegate.lab.scoring.signals import extract_signals
from tidegate.lab.scoring.text_needs import Need
from tidegate.models.pricing import TokenRates
from tidegate.models.token_counters import create_counter

Json = dict[str, Any]
RULER = UnitCounter(CharsPerToken(4))
FILLER = "word " * 200
"""A thousand characters that name nothing: 250 tokens."""


def call(ident: str, tool: str, **arguments: object) -> Json:
    function = {"name": tool, "arguments": json.dumps(arguments)}
    return {
        "role": "assistant",
        "content": None,
        "tool_calls": [{"id": ident, "type": "function", "function": function}],
    }


def result(ident: str, text: str) -> Json:
    return {"role": "tool", "tool_call_id": ident, "content": text}


def user(text: str) -> Json:
    return {"role": "user", "content": text}


def asked(at: int, messages: list[Json], **more: Any) -> ContenderRequest:
    return ContenderRequest(at, messages, **more)


def gauged(
    said: list[Json], requests: list[ContenderRequest], window: int, bill: InputBill | None = None, **task: Any
) -> SessionFigures:
    held = ScoringTask(extract_signals(said, RULER), said, RULER, window, **task)
    gauge = RequestScorer(held, bill or InputBill(()))
    for each in requests:
        gauge.add_request(each)
    figures = gauge.finish()
    figures.unmanaged = compute_unmanaged_cost(held, InputBill(()))
    return figures


# --- names ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "names"),
    [
        ({"path": "/home/me/shop/src/cart.py"}, {"shop/src/cart.py": "path"}),
        ({"path": "a/shop/src/cart.py"}, {"shop/src/cart.py": "path"}),
        ({"path": "src/cart.py"}, {"src/cart.py": "path"}),
        ({"command": "grep -n total cart.py"}, {"cart.py": "file"}),
        ({"url": "https://example.org/x/y.py"}, {"https://example.org/x/y.py": "url"}),
        ({"to": "ann@example.org"}, {"ann@example.org": "email"}),
        ({"commit": "3f9ac01"}, {"3f9ac01": "hash"}),
        ({"order": 48213, "timeout": 60001, "limit": 98765}, {"48213": "number"}),
        ({"year": "2024", "round": "12300", "small": "123"}, {}),
        ({"cwd": "/srv/app/main.py", "description": "reads src/cart.py"}, {}),
        ({"ask": 'find "the red bicycle" now'}, {"the red bicycle": "quoted"}),
        ({"call": "json.dumps(getTotal())"}, {"json.dumps": "dotted", "getTotal": "symbol"}),
        ({"id": "user-17"}, {"user-17": "id"}),
        ({"flag": True, "nothing": None}, {}),
        ({"text": "x" * 400 + " src/late.py"}, {}),
    ],
)
def test_what_arguments_name(arguments: Json, names: dict[str, str]) -> None:
    assert dict(find_identifiers(json.dumps(arguments))) == names


def test_whole_arguments_name_what_stands_late() -> None:
    assert dict(find_identifiers(json.dumps({"text": "x" * 400 + " src/late.py"}), None)) == {"src/late.py": "path"}


@pytest.mark.timeout(300)
@pytest.mark.parametrize("run", ["ab.cd", "a-b", "QUJD+", "x/"])
def test_a_run_without_end_is_data_and_quickly_passed(run: str) -> None:
    """It would take minutes if each of its places were tried up to its end."""
    data = {"data": f"see src/cart.py {run * 40_000} and src/late.py"}
    assert dict(find_identifiers(json.dumps(data), None)) == {"src/cart.py": "path", "src/late.py": "path"}


def test_arguments_that_are_no_json_are_read_as_text() -> None:
    assert dict(find_identifiers("*** Update src/cart.py")) == {"src/cart.py": "path"}
    assert flatten_arguments("{broken") == "{broken"
    assert flatten_arguments('{"a": "x\\ny", "b": [1, null]}') == "a\nx\ny\nb\n1\nnull"
    assert "\ud800" not in flatten_arguments('{"a": "\\ud800"}')


@pytest.mark.parametrize(
    ("text", "name", "there"),
    [
        ("see cart.py.", "cart.py", True),
        ("see mycart.py", "cart.py", False),
        ("mycart.py, cart.py", "cart.py", True),
        ("/src/cart.py", "cart.py", True),
        ("123456", "12345", False),
        ("cart.pyc", "cart.py", False),
        ("", "cart.py", False),
    ],
)
def test_a_name_stands_whole_or_not_at_all(text: str, name: str, there: bool) -> None:
    assert contains_whole_name(text, name) == there


# --- what a session needs -------------------------------------------------------------------------------------------


def needs(said: list[Json]) -> list[Need]:
    return extract_signals(said, RULER).references


def test_a_reference_is_what_was_told_before() -> None:
    said = [
        user("Mend src/shop/cart.py."),
        call("1", "read", path="/repo/work/src/shop/cart.py"),
        result("1", "import totals.py"),
        call("2", "read", path="totals.py", other="unheard.py"),
    ]
    found = needs(said)
    assert [(need.message_index, need.text, need.kind, need.last_seen_index) for need in found] == [
        (1, "src/shop/cart.py", "path", 0),
        (3, "totals.py", "file", 2),
    ]
    # From the t of totals.py on: "totals.py", and the mark behind the message.
    assert found[1].tokens_back == len("totals.py") // 4 + 0


def test_what_only_the_agent_said_is_no_reference_but_makes_one_near() -> None:
    said = [
        user("Mend cart.py."),
        user(FILLER),
        {"role": "assistant", "content": "I will look at cart.py and at guess.py."},
        user("Yes."),
        call("1", "read", path="cart.py", other="guess.py"),
    ]
    (need,) = needs(said)
    assert (need.text, need.last_seen_index) == ("cart.py", 2)
    assert need.tokens_back < 20


def test_a_name_hidden_among_longer_ones_counts_as_not_there() -> None:
    def found(longer: int) -> int:
        hidden = " ".join(["x48213"] * longer)
        return len(needs([user("Order 48213."), user(hidden), call("1", "find", order="48213")]))

    assert (found(0), found(200), found(201)) == (1, 1, 0)


def test_distance_by_exact_count() -> None:
    """By tokens of the messages between, not by characters."""
    said = [user("Mend cart.py."), user("你好" * 300), call("1", "read", path="cart.py")]
    exact = UnitCounter(create_counter("", "exact"))
    (need,) = extract_signals(said, exact).references
    between = exact.count_message(said[1])
    assert between < need.tokens_back < between + exact.count_message(said[0])
    assert need.tokens_back != needs(said)[0].tokens_back


def test_an_anchor_is_a_line_quoted_word_for_word() -> None:
    line = "    return sum(item.price for item in items)"
    said = [
        user("Go."),
        call("1", "read", path="x"),
        result("1", f"def total():\n{line}\n    # the end of the function is here"),
        call("2", "Edit", old_string=f"short\n{line}\n    # the end of the function is here", new_string="y"),
        result("2", "done"),
        call("3", "apply_patch", input=f"*** Update\n-{line}\n+    return 0"),
        result("3", "done"),
        call("4", "Edit", old_string="nobody ever said this long line before"),
    ]
    found = extract_signals(said, RULER)
    assert [(need.message_index, need.text) for need in found.anchors] == [(3, line.strip()), (5, line.strip())]
    assert found.anchors[1].last_seen_index == 3


# --- what a request keeps -------------------------------------------------------------------------------------------


def old_name() -> list[Json]:
    """Message 4 needs old_name.py, told 500 tokens before, and near_name.py, told just now."""
    return [
        user("Keep old_name.py in mind."),
        user(FILLER),
        user(FILLER),
        user("Now near_name.py."),
        call("1", "read", path="old_name.py", other="near_name.py"),
    ]


def test_far_is_more_than_half_a_window_back() -> None:
    said = old_name()
    tail = gauged(said, [asked(4, said[3:4])], 400)
    assert (tail.far_references.kept, tail.far_references.total) == (0, 1)
    assert (tail.all_references.kept, tail.all_references.total) == (1, 2)
    whole = gauged(said, [asked(4, said[:4])], 400)
    assert (whole.far_references.kept, whole.far_references.total) == (1, 1)
    assert (whole.oversized_requests, tail.oversized_requests) == (1, 0)
    assert [(lost.what, lost.last_seen_index, lost.recoverable) for lost in tail.lost_items] == [
        ("old_name.py", 0, None)
    ]
    nearer = gauged(said, [asked(4, said[3:4])], 501)
    assert nearer.far_references.total == 1, "more than half a window back"
    within = gauged(said, [asked(4, said[3:4])], 600)
    assert within.requests_beyond_window == within.far_references.total == 0, (
        "the whole history fits: there is nothing to judge"
    )
    common = gauged(said, [asked(4, said[3:4])], 400, common_names=frozenset({"old_name.py"}))
    assert common.far_references.total == 0


def test_exactly_half_a_window_back_is_not_far() -> None:
    said = [
        user(FILLER),
        user(FILLER),
        user("Keep old_name.py in mind."),
        user(FILLER),
        call("1", "read", path="old_name.py"),
    ]
    (need,) = needs(said)
    far = [
        gauged(said, [asked(4, [])], window).far_references.total
        for window in (2 * int(need.tokens_back) - 1, 2 * int(need.tokens_back))
    ]
    assert far == [1, 0]


def test_a_request_that_was_not_made_loses_everything() -> None:
    said = old_name()
    figures = gauged(said, [asked(4, [], error="no room")], 400)
    assert (figures.failed_requests, figures.far_references.kept, figures.far_references.total) == (1, 0, 1)
    assert figures.compute_measures()["user"] == 0
    assert figures.compute_measures()["held"] is None
    assert figures.request_sizes == [None]
    missing = gauged(said, [], 400)
    assert missing.failed_requests == 1


def test_a_name_in_a_shorter_form_does_not_count() -> None:
    said = old_name()
    figures = gauged(said, [asked(4, [user("very_old_name.py"), said[3]])], 400)
    assert figures.far_references.kept == 0
    figures = gauged(said, [asked(4, [user("files: old_name.py"), said[3]])], 400)
    assert figures.far_references.kept == 1


def test_recoverable_only_if_the_request_prints_the_call_and_it_gives_the_name_back() -> None:
    said = old_name()
    log = {"m1": "## m1 user\nKeep old_name.py in mind.", "m1..m3": "m1 to m3 with old_name.py in it", "m2": FILLER}

    def lost(note: str) -> list[bool | None]:
        messages = [user(note), said[3]]
        figures = gauged(said, [asked(4, messages, recall=lambda call: log.get(call, ""))], 400)
        assert (figures.recoverable.total, len(figures.lost_items)) == (1, 1)
        return [each.recoverable for each in figures.lost_items]

    assert lost("[cleared: 40 tokens; recall m1]") == [True]
    assert lost("[cleared: 40 tokens; recall m2]") == [False], "the call gives something else back"
    assert lost("[cleared: 40 tokens; recall m9]") == [False], "there is no such message"
    assert lost("[3 messages are not shown, m1 to m3; they are kept: recall by id]") == [True]
    assert lost("- left m1..m3") == [True]
    assert lost("[cleared: 40 tokens]") == [False], "no call is printed"
    assert lost("m1 was said before") == [False], "an id alone is no call"


def test_a_call_may_be_printed_in_arguments_beside_which_nothing_was_said() -> None:
    said = [*old_name()[:3], call("c1", "write", content="old words"), old_name()[4]]
    short = call("c1", "write", content="[9 chars; recall m1]")
    figures = gauged(said, [asked(4, [short], recall=lambda _: "old_name.py")], 400)
    assert (figures.recoverable.total, figures.recoverable.kept) == (1, 1)


def test_what_the_recording_itself_says_is_no_printed_call() -> None:
    said = [*old_name()[:3], user("recall m1 if you like"), old_name()[4]]
    figures = gauged(said, [asked(4, said[3:4], recall=lambda _: "old_name.py")], 400)
    assert figures.recoverable.kept == 0


def test_printed_calls() -> None:
    assert find_recall_calls("[cleared; recall m12]") == ("m12",)
    assert find_recall_calls("recall shows it, by an id (m4), a range (m2..m59) or words\n- left m2..m9, e30.1") == (
        "m4", "m2..m59", "m2..m9", "e30.1",
    )  # fmt: skip
    assert find_recall_calls("m12 and nothing else") == ()


def test_words_of_the_user_in_pieces_of_a_hundred() -> None:
    first = "a" * 100 + "b" * 100
    said = [user(first), user(FILLER), user("c" * 50), {"role": "assistant", "content": "yes"}]
    figures = gauged(said, [asked(3, [user("x" + "b" * 100), user("c" * 50)])], 100)
    assert figures.user_word_shares == pytest.approx(150 / (200 + 1000 + 50))
    assert figures.newest_whole == 1
    half = gauged([user(FILLER), user(first), said[3]], [asked(2, [user("a" * 100)])], 100)
    assert half.user_word_shares == pytest.approx(100 / 1200)
    assert half.newest_whole == 0
    figures = gauged(said, [asked(3, [user("c" * 49)])], 100)
    assert (figures.user_word_shares, figures.newest_whole) == (0, 0)


# --- what it costs --------------------------------------------------------------------------------------------------


def four() -> list[Json]:
    """Three answers; 100 tokens are said before each."""
    return [part for number in range(3) for part in (user(str(number) * 400), {"role": "assistant", "content": ""})]


def test_what_is_shared_and_what_is_written_again() -> None:
    said = four()
    figures = gauged(said, [asked(1, said[:1]), asked(3, said[:3]), asked(5, [user("s" * 40), said[4]])], 50)
    assert figures.request_sizes == [100, 200, 110]
    assert figures.cached_sizes == [0, 100, 0]
    assert figures.compute_measures()["cached"] == pytest.approx(100 / 310)
    assert figures.rewritten_tokens == 10, "the summary; what is new at that request is not written again"
    assert (figures.edited_requests, figures.edited_indices, figures.compute_measures()["edits"]) == (1, [5], 50)
    full = 100 * 1.25 + (100 * 0.1 + 100 * 1.25) + (200 * 0.1 + 100 * 1.25)
    assert figures.compute_measures()["cost"] == pytest.approx((100 * 0.1 + 310 * 1.25) / full)
    assert figures.compute_measures()["sent"] == pytest.approx(410 / 600)


def test_a_summary_is_a_call_that_is_billed() -> None:
    said = four()
    bill = InputBill((TokenRates(input=1.0, output=10.0),))
    figures = gauged(said, [asked(1, said[:1], summaries=(SummaryUsage(1000, 100),), cpu_seconds=0.25)], 50, bill)
    assert figures.summary_calls == 1
    assert figures.dollars == pytest.approx((100 + 1000 + 100 * 10) / 1e6)
    assert figures.longest_pause == 0.25


CACHED = (TokenRates(input=4.0, output=10.0, cached=1.0),)
WRITTEN = (TokenRates(input=4.0, output=10.0, cached=1.0, written=5.0),)


@pytest.mark.parametrize(
    ("rates", "shared", "dollars"),
    [
        ((TokenRates(input=4.0, output=10.0),), 2000, 3000 * 4),
        (CACHED, 2000, 1920 * 1 + 1080 * 4),  # whole steps of 128 tokens
        (CACHED, 1000, 3000 * 4),  # too short to be kept
        (WRITTEN, 2000, 2000 * 1 + 1000 * 5),
        (WRITTEN, 1000, 3000 * 5),
        ((), 2000, 0),
    ],
)
def test_billed_by_the_rules_of_the_cache(rates: tuple[TokenRates, ...], shared: float, dollars: float) -> None:
    bill = InputBill(rates)
    bill.add_request(1, 3000, shared)
    assert bill.dollars == pytest.approx(dollars / 1e6)


def test_a_cache_forgets_by_recorded_times() -> None:
    def billed(*times: float | None) -> float:
        bill = InputBill(WRITTEN, times)
        bill.add_request(0, 2000, 0)
        bill.add_request(1, 2000, 2000)
        assert bill.expired_requests == (times == (1000.0, 1301.0))
        return bill.dollars * 1e6

    kept, forgotten = 2000 * 5 + 2000 * 1, 2 * 2000 * 5
    assert billed(1000.0, 1300.0) == pytest.approx(kept)
    assert billed(1000.0, 1301.0) == pytest.approx(forgotten)
    assert billed(1000.0, None) == pytest.approx(kept), "not known: nothing expires"
    assert billed() == pytest.approx(kept)


def test_dearer_steps_of_a_price_list() -> None:
    bill = InputBill((TokenRates(input=1.0, output=1.0), TokenRates(input=2.0, output=2.0, above=1000)))
    bill.add_request(0, 900, 0)
    bill.add_request(1, 1100, 0)
    assert bill.dollars * 1e6 == pytest.approx(900 + 2200)


# --- validity -------------------------------------------------------------------------------------------------------


def test_invalid_requests_are_counted_unless_the_recording_is_invalid_there_too() -> None:
    said = [user("a"), call("1", "read", path="x"), result("1", "y"), {"role": "assistant", "content": "b"}]
    sound = asked(1, said[:1])
    assert gauged(said, [sound, asked(3, said[:3])], 5).compute_measures()["invalid"] == 0
    orphan = gauged(said, [sound, asked(3, [said[0], said[2]])], 5)
    assert (orphan.invalid_requests, orphan.broken_chat, orphan.broken_turns) == (1, 1, 1)
    assert list(orphan.broken_rules) == ["OC2"]
    open_call = gauged(said, [sound, asked(3, [*said[:2], user("go on")])], 5)
    assert (open_call.invalid_requests, open_call.broken_chat) == (1, 1)
    broken = [said[0], said[2], {"role": "assistant", "content": "b"}]
    assert gauged(broken, [asked(2, broken[:2])], 5).compute_measures()["invalid"] == 0
    assert gauged(broken, [asked(2, broken[:2])], 5).compute_measures()["broken"] == 0


def test_every_measure_has_a_value_a_definition_and_a_limit() -> None:
    assert [measure.key for measure in MEASURES] == list(dict.fromkeys(measure.key for measure in MEASURES))
    assert {measure.key for measure in MEASURES} == set(SessionFigures(0, 0).compute_measures())
    assert all(measure.definition and measure.not_shown for measure in MEASURES)
