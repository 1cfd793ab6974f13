"""The input of a summary fits the window of the model that reads it, whatever the history."""

import json
from itertools import repeat

import pytest

from tests.session.settling import COUNTER, GOOD, Reasons, request_of, scribe, wrote
from tidegate.models.errors.classification import ProviderError, classify_response
from tidegate.session.summaries.prompt import MAX_SUMMARY_CHUNKS
from tidegate.session.summarizer import DEFAULT_SUMMARY_WINDOW

OVERFLOW = b'{"error": {"message": "This model\'s maximum context length is 2048 tokens. However, your messages'
OVERFLOW += b' resulted in 9000 tokens.", "code": "context_length_exceeded"}}'


def overflow() -> ProviderError:
    fault = classify_response(400, OVERFLOW)
    assert (fault.kind, fault.window) == ("overflow", 2048)
    return fault


def flat(body: object) -> str:
    return json.dumps(body, ensure_ascii=False)


@pytest.mark.parametrize("window", [2_048, 4_096, 8_192])
def test_the_input_fits_the_window_of_the_model_that_reads_it(window: int) -> None:
    provider, why = scribe(repeat(GOOD)), Reasons()
    assert wrote(why.by(provider, window=window), request_of(30)) is not None, why
    for body, sent in zip(provider.bodies, provider.requests, strict=True):
        answer = body["max_completion_tokens"]
        assert isinstance(answer, int)
        assert COUNTER.count_text(sent.decode()) + answer <= window
    everything = "".join(map(flat, provider.bodies))
    assert all(
        f"=== {mark} m{number} user" in everything for number in range(24, 31) for mark in marks(everything, number)
    )


def test_many_small_messages_and_a_long_summary_before_them_fit_too() -> None:
    provider = scribe(repeat(GOOD))
    previous = "\n".join(f"- The file /srv/data/part{number}.bin had id ID-{number}." for number in range(400))
    request = request_of(
        400, previous=previous, text=lambda number: f"entry {number}: the rows of a client in the table"
    )
    assert wrote(Reasons().by(provider, window=4_096), request) is not None
    for body, sent in zip(provider.bodies, provider.requests, strict=True):
        answer = body["max_completion_tokens"]
        assert isinstance(answer, int)
        assert COUNTER.count_text(sent.decode()) + answer <= 4_096 * 0.95


def marks(text: str, number: int) -> list[str]:
    """The marks with which a message is shown: exactly one."""
    found = [line.split()[1] for line in text.replace("\\n", "\n").split("\n") if line.endswith(f" m{number} user")]
    assert len(found) == 1, number
    return found


def test_each_piece_continues_the_summary_so_far() -> None:
    texts = [f"- The agent read part {number}: entry {number}01 of src/app." for number in range(1, 9)]
    provider = scribe(texts)
    found = wrote(Reasons().by(provider, window=2_600), request_of(20))
    asked = [flat(body) for body in provider.bodies]
    assert 1 < len(asked) <= MAX_SUMMARY_CHUNKS
    assert found is not None
    assert found.startswith(texts[len(asked) - 1])
    for place in range(1, len(asked)):
        assert "the summary so far" in asked[place]
        assert texts[place - 1] in asked[place]


def test_pieces_are_bounded_in_number_and_the_oldest_go_through_the_digest() -> None:
    provider = scribe(repeat(GOOD))
    assert wrote(Reasons().by(provider, window=2_048), request_of(120)) is not None
    assert len(provider.requests) == MAX_SUMMARY_CHUNKS
    first = flat(provider.bodies[0])
    assert "the summary so far" in first
    assert "user asked first" in first  # a line of the digest
    assert "=== " in first
    assert " m1 user" not in first


def test_every_message_is_heard_however_long() -> None:
    def huge(number: int) -> str:
        return f"BEGIN{number} {'filling words here ' * 20_000} FINISH{number}"

    provider = scribe(repeat(GOOD))
    wrote(Reasons().by(provider, window=8_192), request_of(3, text=huge))
    everything = "".join(map(flat, provider.bodies))
    assert all(f"BEGIN{number}" in everything and f"FINISH{number}" in everything for number in (1, 2, 3))


def test_a_window_that_is_learned_is_kept_to() -> None:
    provider, why = scribe([overflow(), *[GOOD] * 20]), Reasons()
    summarize = why.by(provider, window=64_000)
    assert wrote(summarize, request_of(12)) is not None
    later = [COUNTER.count_text(request.decode()) for request in provider.requests]
    assert later[0] > 2_048
    assert max(later[1:]) < 2_048
    before = len(later)
    assert wrote(summarize, request_of(12)) is not None
    assert all(COUNTER.count_text(request.decode()) < 2_048 for request in provider.requests[before:])


def test_a_provider_that_always_overflows_is_asked_a_few_times_only() -> None:
    provider, why = scribe(repeat(overflow())), Reasons()
    assert wrote(why.by(provider, window=64_000, retries=3), request_of(12)) is None
    assert len(provider.requests) <= 4
    assert why == ["the window of 1,024 tokens leaves no room to ask"]


def test_a_window_too_small_to_ask_asks_nobody() -> None:
    provider, why = scribe([]), Reasons()
    assert wrote(why.by(provider, window=400), request_of()) is None
    assert provider.requests == []
    assert "leaves no room" in why[0]


def test_of_an_unknown_window_little_is_taken() -> None:
    provider = scribe(repeat(GOOD))
    assert wrote(Reasons().by(provider, window=None), request_of(60)) is not None
    assert max(COUNTER.count_text(request.decode()) for request in provider.requests) < DEFAULT_SUMMARY_WINDOW
