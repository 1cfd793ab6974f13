"""What a host learns from refusals for length: how far, for how long, and how often a request is sent again."""

import pytest

from tests.models.error_texts import ErrorText, list_different_error_texts, sample_error_texts
from tidegate import Session
from tidegate.core.messages import Message, Text
from tidegate.models.errors.classification import ProviderError, classify_response
from tidegate.models.window_evidence import EVIDENCE_SECONDS, WindowKey
from tidegate.session.following import FollowedRequest, FollowingSession, HostItem, make_host_item
from tidegate.session.refusals import RefusalMemory

KEY = WindowKey("", "localhost", "gpt-4o")
WINDOW = 16_000
NO_NUMBER = classify_response(400, {"error": {"message": "Your input exceeds the context window of this model."}})


class Host:
    """A program with a list of messages, and its memory of refusals; `now` is its clock."""

    def __init__(self, memory: RefusalMemory | None = None, messages: int = 12) -> None:
        self.now = 1_000_000.0
        self.memory = memory or RefusalMemory(lambda: self.now)
        self.following = FollowingSession[str](Session("gpt-4o", window=WINDOW))
        self.items: list[HostItem[str]] = []
        for number in range(messages):
            self.say("user", f"Question {number}. " + "Tell me more about the tide. " * 60)
            self.say("assistant", f"Answer {number}. " + "The water comes and goes. " * 60)
        self.say("user", "And now?")

    def say(self, role: str, text: str) -> None:
        message = Message(role, (Text(text),))  # type: ignore[arg-type]
        self.items.append(make_host_item(text, message))

    @property
    def window(self) -> int | None:
        return self.following.session.window

    def prepare(self, max_output: int = 0) -> FollowedRequest[str]:
        self.memory.apply(self.following, KEY)
        return self.following.prepare(self.items, max_output=max_output)

    def shorten(
        self, refused: FollowedRequest[str], error: ProviderError, max_output: int = 0
    ) -> FollowedRequest[str] | None:
        return self.memory.answer(self.following, refused, error, KEY, max_output)

    def answer(self, request: FollowedRequest[str], text: str = "The tide is low.") -> None:
        self.following.record_reply(request, Message("assistant", (Text(text),)))
        self.memory.take_accepted(self.following, request, KEY, request.tokens)
        self.say("assistant", text)
        self.say("user", f"After {text} what comes?")


def name_window(tokens: int) -> ProviderError:
    return classify_response(400, {"error": {"message": f"This model's maximum context length is {tokens} tokens."}})


@pytest.mark.parametrize("error", [NO_NUMBER, name_window(4_000)], ids=["no number", "a number"])
def test_a_refusal_is_answered_with_less_and_remembered_for_an_hour(error: ProviderError) -> None:
    host = Host()
    refused = host.prepare()
    shorter = host.shorten(refused, error)
    assert shorter is not None
    assert shorter.tokens < refused.tokens * 0.91
    learned = host.window
    assert learned is not None
    assert learned < WINDOW
    other = Host(host.memory)
    assert other.prepare().tokens < refused.tokens
    assert other.window == learned, "another conversation with the same model knows it"
    host.now += EVIDENCE_SECONDS + 1
    host.prepare()
    other.prepare()
    assert (host.window, other.window) == (WINDOW, WINDOW)


def test_every_request_has_its_own_attempts() -> None:
    host = Host()
    for turn in range(4):
        request = host.prepare()
        for _ in range(2):
            shorter = host.shorten(request, NO_NUMBER)
            assert shorter is not None, turn
            request = shorter
        assert host.shorten(request, NO_NUMBER) is None
        host.answer(request, f"Answer after {turn}.")


@pytest.mark.parametrize(
    "error",
    [
        classify_response(401, {"error": {"message": "Incorrect API key provided."}}),
        classify_response(429, {"error": {"message": "Rate limit reached for requests."}}),
        classify_response(400, {"error": {"message": "Unsupported parameter: 'top_k' is not supported."}}),
        classify_response(404, {"error": {"message": "Nope."}}),
        classify_response(None, {"error": {"message": "Nope."}}),
    ],
    ids=["key", "rate", "parameter", "unknown words with another status", "unknown words without a status"],
)
def test_nothing_is_sent_again_for_other_reasons(error: ProviderError) -> None:
    host = Host()
    assert host.shorten(host.prepare(), error) is None
    assert host.window == WINDOW


def test_a_window_in_which_nothing_fits_is_not_used() -> None:
    """System prompt and tools alone are larger: the next request must still be possible."""
    host = Host()
    host.following.session.set_system("Obey. " * 5_000)
    refused = host.prepare()
    assert host.shorten(refused, name_window(3_000)) is None
    assert host.prepare().tokens > 3_000


@pytest.mark.parametrize(
    ("asked", "reserve"), [(0, 4_000), (3_000, 4_000), (6_000, 6_320), (12_000, 8_320), (64_000, 4_000)]
)
def test_room_is_kept_for_the_output_that_is_asked_for(asked: int, reserve: int) -> None:
    """At most half of the window. Whoever asks for more than the window uses only a part of the model's."""
    host = Host()
    request = host.prepare(asked)
    assert host.following.session.budget.reserve == reserve
    assert request.tokens <= WINDOW - reserve


def test_a_provider_that_counts_the_output_gets_room_for_all_of_it() -> None:
    host = Host()
    refused = host.prepare(12_000)
    shorter = host.shorten(refused, name_window(WINDOW), 12_000)
    assert shorter is not None
    assert shorter.tokens + 12_000 <= WINDOW


# --- unknown words ----------------------------------------------------------------------------------------------------

ODD = classify_response(422, {"error": {"message": "Nope. 31 sheets of paper do not go into this envelope."}})
ODD_AGAIN = classify_response(422, {"error": {"message": "Nope. 27 sheets of paper do not go into this envelope."}})


def test_unknown_words_are_remembered_if_a_smaller_request_was_accepted() -> None:
    host = Host()
    refused = host.prepare()
    tried = host.shorten(refused, ODD)
    assert tried is not None
    assert tried.tokens < refused.tokens / 2
    host.answer(tried)
    other = Host(host.memory)
    ceiling = other.prepare()
    assert tried.tokens < ceiling.tokens < refused.tokens, "a ceiling for other conversations with the same model"
    host.now += 2 * 86_400  # nothing is known of sizes any more
    third = Host(host.memory)
    assert third.prepare().tokens == refused.tokens
    shorter = third.shorten(third.prepare(), ODD_AGAIN)
    assert shorter is not None
    assert shorter.tried is None, "the words are known now"


def test_if_a_smaller_request_is_refused_too_the_view_is_restored() -> None:
    host = Host()
    refused = host.prepare()
    tried = host.shorten(refused, ODD)
    assert tried is not None
    assert host.shorten(tried, NO_NUMBER) is None
    assert host.window == WINDOW
    again = host.prepare()
    assert again.is_unchanged
    assert again.tokens == refused.tokens
    assert host.shorten(again, ODD_AGAIN) is None, "after the same words, nothing is tried again"
    others = classify_response(422, {"error": {"message": "No."}})
    assert host.shorten(again, others) is not None


@pytest.mark.parametrize("reported", [10_000, 0])
def test_only_a_large_request_is_tried_again(reported: int) -> None:
    """It is large above 60% of the window, or if no larger one was accepted, also without reports of sizes."""
    host = Host()
    host.memory.take_accepted(host.following, host.prepare(), KEY, reported)
    small = Host(host.memory, messages=3)
    assert small.shorten(small.prepare(), ODD) is None
    fresh = Host(messages=3)
    assert fresh.shorten(fresh.prepare(), ODD) is not None


def test_two_calls_of_one_conversation_are_tried_apart() -> None:
    """A framework may make two calls at the same time: the answer to one says nothing about the other."""
    host = Host()
    tried = host.shorten(host.prepare(), ODD)
    assert tried is not None
    host.answer(host.prepare())
    assert host.shorten(tried, ODD_AGAIN) is None


@pytest.mark.parametrize("words", ["of a size that it fits", "of a size below one that was accepted"])
def test_a_window_that_is_not_believed_is_like_unknown_words(words: str) -> None:
    host, error = Host(), name_window(900_000)
    if words != "of a size that it fits":
        host.answer(host.prepare())
        host.say("user", "Tell me all of it again. " * 150)
        error = name_window(5_000)
    refused = host.prepare()
    tried = host.shorten(refused, error)
    assert tried is not None
    assert tried.tokens < refused.tokens / 2
    assert host.shorten(tried, error) is None
    assert host.window == WINDOW


def check_texts(texts: list[ErrorText]) -> None:
    wrong = []
    for row in texts:
        host = Host(messages=6)
        sizes = list[int]()
        request: FollowedRequest[str] | None = host.prepare()
        while request is not None:
            sizes.append(request.tokens)
            if row.kind == "overflow" and request.tokens < sizes[0] * 0.95:
                break
            request = host.shorten(request, classify_response(row.status or 400, row.text))
        is_right = sizes[-1] < sizes[0] if row.kind == "overflow" else len(sizes) <= 2
        if not is_right:
            wrong.append(f"{row.kind} {row.status} {sizes} {row.text[:200]}")
    assert not wrong, "\n".join(wrong)


def test_error_texts_about_length_lead_to_a_smaller_request_and_others_to_one_call_more_at_most() -> None:
    check_texts(sample_error_texts())


@pytest.mark.exhaustive
def test_all_kinds_of_error_texts() -> None:
    check_texts(list_different_error_texts())
