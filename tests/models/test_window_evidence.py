"""What refusals and answers say about a window: which claims are believed, for whom, and for how long."""

import json

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.models.errors.classification import ProviderError, classify_response
from tidegate.models.window_evidence import EVIDENCE_SECONDS, OwnCount, WindowEvidence, WindowKey, hash_words

KEY = WindowKey("t1-", "openai", "gpt-4o")
NOW = 1_800_000_000.0


def claim(window: int, tokens: int | None = None) -> ProviderError:
    counted = f" However, your messages resulted in {tokens} tokens." if tokens else ""
    return classify_response(400, {"error": {"message": f"maximum context length is {window} tokens.{counted}"}})


def test_a_claim_is_believed_if_the_own_count_exceeds_it() -> None:
    evidence = WindowEvidence()
    assert evidence.take_refusal(KEY, claim(8192), OwnCount(9000), NOW) == 8192
    assert evidence.find_window(KEY, NOW) == 8192


@pytest.mark.parametrize(
    ("prompt", "output", "believed"),
    [(5000, 0, False), (5462, 0, True), (1000, 7000, True), (100, 0, False), (0, 0, False)],
    ids=["far below", "within the margin", "with its output", "tiny", "empty"],
)
def test_a_claim_above_the_own_count_is_not_believed(prompt: int, output: int, believed: bool) -> None:
    """The provider counts up to half as many tokens again, and the output that is asked for counts as well."""
    evidence = WindowEvidence()
    found = evidence.take_refusal(KEY, claim(8192), OwnCount(prompt, output), NOW)
    assert (found, evidence.find_window(KEY, NOW)) == ((8192, 8192) if believed else (None, None))


def test_a_claim_below_the_largest_accepted_request_is_not_believed() -> None:
    evidence = WindowEvidence()
    evidence.take_accepted(KEY, 4000, NOW)
    evidence.take_accepted(KEY, 2000, NOW + 1)
    assert evidence.take_refusal(KEY, claim(900), OwnCount(5000), NOW + 2) is None
    assert evidence.take_refusal(KEY, claim(3999), OwnCount(5000), NOW + 2) is None
    assert evidence.find_window(KEY, NOW + 2) is None
    assert evidence.take_refusal(KEY, claim(4000), OwnCount(5000), NOW + 2) == 4000


def test_a_refusal_that_names_the_size_of_this_request_counts_for_its_conversation_only() -> None:
    """A server that was loaded again with a smaller window, or another one behind a router."""
    evidence = WindowEvidence()
    evidence.take_accepted(KEY, 30_000, NOW)
    assert evidence.take_refusal(KEY, claim(8192, 12_500), OwnCount(12_000), NOW) == 8192
    assert evidence.find_window(KEY, NOW) is None
    assert evidence.take_refusal(KEY, claim(8192, 25_000), OwnCount(12_000), NOW) is None


def test_a_larger_accepted_request_ends_a_learned_window() -> None:
    evidence = WindowEvidence()
    evidence.take_refusal(KEY, claim(8192), OwnCount(9000), NOW)
    evidence.take_accepted(KEY, 8192, NOW)
    assert evidence.find_window(KEY, NOW) == 8192
    assert evidence.take_accepted(KEY, 8193, NOW), "worth storing"
    assert evidence.find_window(KEY, NOW) is None


def test_everything_is_known_for_one_token_upstream_and_model() -> None:
    evidence = WindowEvidence()
    others = [KEY._replace(scope="t2-"), KEY._replace(upstream="openai-local"), KEY._replace(model="gpt-5")]
    evidence.take_refusal(KEY, claim(8192), OwnCount(9000), NOW)
    assert [evidence.find_window(key, NOW) for key in others] == [None, None, None]
    for key in others:
        evidence.take_accepted(key, 100_000, NOW)
    assert evidence.find_window(KEY, NOW) == 8192


def test_both_kinds_of_evidence_expire() -> None:
    evidence = WindowEvidence()
    evidence.take_refusal(KEY, claim(8192), OwnCount(9000), NOW)
    assert evidence.find_window(KEY, NOW + EVIDENCE_SECONDS - 1) == 8192
    assert evidence.find_window(KEY, NOW + EVIDENCE_SECONDS) is None
    evidence.take_accepted(KEY, 60_000, NOW)
    assert evidence.take_refusal(KEY, claim(4096), OwnCount(9000), NOW + EVIDENCE_SECONDS - 1) is None
    assert evidence.take_refusal(KEY, claim(4096), OwnCount(9000), NOW + EVIDENCE_SECONDS) == 4096
    evidence.take_accepted(KEY, 3000, NOW + EVIDENCE_SECONDS)
    assert evidence.find_window(KEY, NOW + EVIDENCE_SECONDS) == 4096


def test_a_clock_that_was_set_back_keeps_nothing() -> None:
    evidence = WindowEvidence()
    evidence.take_refusal(KEY, claim(8192), OwnCount(9000), NOW)
    assert evidence.find_window(KEY, NOW - 2 * EVIDENCE_SECONDS) is None


@pytest.mark.parametrize("text", ["Prompt is too long", "Rate limit reached: Limit 30000, Used 29000, Requested 5000."])
def test_an_error_without_a_window_says_nothing(text: str) -> None:
    evidence = WindowEvidence()
    assert evidence.take_refusal(KEY, classify_response(400, {"error": text}), OwnCount(50_000), NOW) is None


def test_what_is_stored_is_known_to_the_next_process_and_to_others() -> None:
    first = WindowEvidence()
    first.take_refusal(KEY, claim(8192), OwnCount(9000), NOW)
    first.take_accepted(KEY._replace(model="gpt-5"), 50_000, NOW)
    second = WindowEvidence(first.encode())
    assert second.find_window(KEY, NOW) == 8192
    assert second.take_refusal(KEY._replace(model="gpt-5"), claim(900), OwnCount(5000), NOW) is None
    assert second.encode() == first.encode()
    third = WindowEvidence()
    third.take_accepted(KEY, 9000, NOW + 1)
    third.merge(first.encode())
    assert third.find_window(KEY, NOW + 1) is None, "it knows more than the stored text"
    first.merge(third.encode())
    assert first.find_window(KEY, NOW + 1) is None


def test_recent_evidence_is_not_replaced_by_older() -> None:
    old, new = WindowEvidence(), WindowEvidence()
    old.take_accepted(KEY, 50_000, NOW)
    old.take_refusal(KEY._replace(model="m"), claim(4096), OwnCount(9000), NOW)
    later = NOW + 2 * EVIDENCE_SECONDS
    new.take_accepted(KEY, 20_000, later)
    new.take_refusal(KEY._replace(model="m"), claim(2048), OwnCount(9000), later)
    new.merge(old.encode())
    assert new.take_refusal(KEY, claim(900), OwnCount(5000), later) is None
    assert new.find_window(KEY._replace(model="m"), later) == 2048
    old.merge(new.encode())
    assert old.take_refusal(KEY, claim(900), OwnCount(5000), later) is None


@pytest.mark.parametrize(
    "text",
    ['{"gpt-4o": 900}', "", "{", "null", "7", '[{"scope": 1}]', '["a"]', '{"t1-": {"openai": 900}}', "\ud800"],
)
def test_other_texts_say_nothing(text: str) -> None:
    """The file of an older version had one window for all clients of a model."""
    evidence = WindowEvidence(text)
    assert evidence.find_window(KEY, NOW) is None
    assert evidence.encode() == "[]"


def test_impossible_windows_in_the_stored_text_are_left_out() -> None:
    record = {"scope": "t1-", "upstream": "openai", "model": "gpt-4o", "learned_at": NOW}
    for window in (-5, 1, 10**12):
        assert WindowEvidence(json.dumps([{**record, "window": window}])).find_window(KEY, NOW) is None


def test_accepted_requests_are_seldom_worth_storing() -> None:
    evidence = WindowEvidence()
    stored = 0
    for tokens in range(1000, 200_000, 100):
        if evidence.take_accepted(KEY, tokens, NOW + tokens / 1000):
            evidence.encode()
            stored += 1
    assert 40 < stored < 60
    assert evidence.take_refusal(KEY, claim(199_000), OwnCount(210_000), NOW + 200) is None, "all of them count"
    assert evidence.take_accepted(KEY, 200_000, NOW + 200 + EVIDENCE_SECONDS / 4)


@pytest.mark.exhaustive
def test_the_number_of_models_is_bounded_for_each_token() -> None:
    """A client that invents names of models pushes out only its own."""
    evidence = WindowEvidence()
    evidence.take_refusal(KEY, claim(8192), OwnCount(9000), NOW)
    mine = KEY._replace(scope="t2-")
    for number in range(1000):
        evidence.take_refusal(mine._replace(model=f"m{number}"), claim(4096), OwnCount(9000), NOW + number)
        evidence.take_accepted(mine._replace(model=f"n{number}"), 9000, NOW + number)
    evidence.take_refusal(mine._replace(model="m" * 100_000), claim(4096), OwnCount(9000), NOW)
    assert evidence.find_window(KEY, NOW) == 8192
    assert len(evidence.encode()) < 20_000
    again = WindowEvidence(evidence.encode())
    assert again.find_window(mine._replace(model="m999"), NOW + 999) == 4096
    assert again.find_window(mine._replace(model="m0"), NOW) is None


steps = st.lists(
    st.tuples(
        st.sampled_from("refuse accept".split()), st.integers(200, 50_000), st.integers(0, 60_000), st.integers(0, 2000)
    ),
    max_size=30,
)


@given(steps)
def test_no_learned_window_is_below_what_was_accepted_in_the_last_hour(taken: list[tuple[str, int, int, int]]) -> None:
    evidence, now = WindowEvidence(), NOW
    accepted: list[tuple[float, int]] = []
    for kind, window, tokens, pause in taken:
        now += pause
        if kind == "accept":
            evidence.take_accepted(KEY, tokens, now)
            accepted.append((now, tokens))
        else:
            evidence.take_refusal(KEY, claim(window), OwnCount(tokens), now)
        evidence = WindowEvidence(evidence.encode())
        found = evidence.find_window(KEY, now)
        newest = max(accepted, key=lambda each: each[1], default=(0.0, 0))
        if found is not None and now - newest[0] < EVIDENCE_SECONDS:
            assert found >= newest[1]
    assert msgspec.json.decode(evidence.encode(), type=list[dict[str, object]]) is not None


def test_a_ceiling_rises_every_hour_and_is_forgotten_after_a_day() -> None:
    evidence = WindowEvidence()
    evidence.take_ceiling(KEY, 100_000, NOW)
    found = [WindowEvidence(evidence.encode()).find_window(KEY, NOW + hours * 3600) for hours in (0, 0.9, 1, 2, 23, 24)]
    assert found[:4] == [100_000, 100_000, 125_000, 156_250]
    assert found[4] is not None
    assert found[5] is None
    assert evidence.find_window(KEY._replace(scope="t2-"), NOW) is None


def test_a_ceiling_is_not_below_what_was_accepted() -> None:
    evidence = WindowEvidence()
    evidence.take_ceiling(KEY, 100_000, NOW)
    evidence.take_accepted(KEY, 110_000, NOW)
    assert evidence.find_window(KEY, NOW) == 110_000
    evidence.take_refusal(KEY, claim(120_000), OwnCount(130_000), NOW)
    assert evidence.find_window(KEY, NOW) == 110_000, "the smaller one counts"


def test_words_are_known_for_one_token_and_upstream_whatever_their_numbers() -> None:
    evidence, error = WindowEvidence(), classify_response(400, {"error": "Nope, 31 sheets are too thick for me."})
    other = classify_response(400, {"error": "Nope, 4,711 sheets are too thick for me."})
    evidence.take_words(KEY, hash_words(error), NOW)
    again = WindowEvidence(evidence.encode())
    assert again.knows_words(KEY._replace(model="any"), hash_words(other))
    assert not again.knows_words(KEY._replace(scope="t2-"), hash_words(error))
    assert not again.knows_words(KEY._replace(upstream="openai-local"), hash_words(error))
    assert "sheets" not in evidence.encode(), "they may repeat the request"
    for number in range(100):
        again.take_words(KEY, f"{number:016x}", NOW)
    assert len(again.encode()) < 1500
