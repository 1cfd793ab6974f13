"""Why requests missed the provider's cache: each cause is planted, with a clock of its own."""

from collections.abc import Sequence

import pytest

from tests.session.figures import said, step
from tidegate import Session
from tidegate.core.messages import user_message
from tidegate.core.notes import CacheMissReason
from tidegate.models.catalog import ModelInfo
from tidegate.session.reports.cache_misses import CachedRequest, CacheReader
from tidegate.store.log import Log, MemoryLog


class CachedConversation:
    """A session whose provider keeps all of a request in its cache, and reads from it what it is told to."""

    def __init__(self, window: int = 100_000) -> None:
        self.now = 1_000.0
        self.session = self._open("claude-sonnet-5", MemoryLog(), window)
        self.session.add(user_message("word " * 8_000))
        self.left = 0

    def _open(self, model: str, log: Log, window: int) -> Session:
        clock = lambda: self.now  # noqa: E731
        return Session(model, window=window, system="be careful", count="chars/4", clock=clock, log=log)

    def switch_model(self, model: str) -> None:
        self.session = self._open(model, self.session.log, 100_000)

    def ask(self, *, read: float = 1.0, pause: float = 10.0, text: str = "go on") -> None:
        """A request that reads this share of what the one before it left, after a pause."""
        self.now += pause
        self.session.add(user_message(text))
        size = self.session.prepare().tokens
        hit = int(min(size, self.left) * read)
        self.left = size - 10
        self.now += 5
        self.session.add(said("Done."))
        self.session.record(
            {
                "input_tokens": 10,
                "cache_read_input_tokens": hit,
                "cache_creation_input_tokens": size - hit - 10,
                "output_tokens": 20,
            }
        )

    def read(self, lifetime: float | None = None) -> tuple[CacheReader, list[CachedRequest]]:
        reader = CacheReader({"claude-sonnet-5": ModelInfo(cache_lifetime=lifetime)})
        return reader, [found for event in self.session.log.read() if (found := reader.feed(event)) is not None]

    def find_last_miss(self) -> tuple[str, str, str]:
        miss = self.read()[1][-1].miss
        assert miss is not None
        return miss.origin, miss.cause, miss.first_difference


def _list_origins(requests: Sequence[CachedRequest]) -> list[str]:
    return [request.miss.origin if request.miss else "" for request in requests]


def test_a_request_that_reads_all_that_was_left_has_no_miss() -> None:
    talk = CachedConversation()
    for _ in range(4):
        talk.ask()
    reader, requests = talk.read()
    assert _list_origins(requests) == ["", "", "", ""]
    assert requests[0].cached_tokens == 0, "nothing was there to be read"
    assert requests[-1].cached_share > 0.9
    assert (reader.calls, reader.sums) == (4, {})


def test_a_changed_system_prompt_is_the_clients_doing_and_comes_before_later_changes() -> None:
    talk = CachedConversation()
    talk.ask()
    talk.session.set_system("be bold")
    talk.ask(read=0)
    assert talk.find_last_miss() == ("client", "the system prompt changed", "system prompt")


def test_a_switched_model_has_a_cache_of_its_own() -> None:
    talk = CachedConversation()
    talk.ask()
    talk.switch_model("claude-opus-5")
    talk.ask(read=0)
    origin, cause, _ = talk.find_last_miss()
    assert (origin, cause) == ("client", "the model changed from claude-sonnet-5 to claude-opus-5")


def test_a_sweep_is_tidegates_doing_and_names_the_first_edited_message() -> None:
    talk = CachedConversation(window=24_000)
    number = 0
    while "sweep" not in talk.session.edit_counts:
        talk.session.add(*step(number, "read", "shell", size=2_000), said("Read."))
        talk.ask(read=0.4)
        number += 1
    origin, cause, first = talk.find_last_miss()
    assert (origin, cause.split()[0]) == ("tidegate", "sweep")
    assert first.startswith("m")


def test_a_pause_beyond_the_lifetime_of_the_cache() -> None:
    talk = CachedConversation()
    talk.ask()
    talk.ask(read=0, pause=1_200)
    assert talk.find_last_miss() == ("lifetime", "a pause of 20 minutes", "")
    _, requests = talk.read(lifetime=1_800)
    assert _list_origins(requests) == ["", "provider"], "by the user's own value the cache should have been there"


def test_without_a_change_and_without_a_pause_it_is_the_provider() -> None:
    talk = CachedConversation()
    talk.ask()
    talk.session.history.add_note(CacheMissReason.topic, "previous_message_not_found")
    talk.ask(read=0)
    miss = talk.read()[1][-1].miss
    assert miss is not None
    assert (miss.origin, miss.first_difference, miss.reported) == ("provider", "", "previous_message_not_found")


def test_a_miss_costs_what_the_cache_would_have_saved() -> None:
    talk = CachedConversation()
    talk.ask()
    talk.ask(read=0, pause=1_200)
    miss = talk.read()[1][-1].miss
    assert miss is not None
    assert miss.missed_tokens > 8_000
    assert miss.dollars is not None
    million = miss.dollars / miss.missed_tokens * 1_000_000
    assert million == pytest.approx(1.15 * 2.0, rel=0.01), "written at 1.25 instead of read at 0.1 times 2 dollars"


def test_several_pauses_below_an_hour_pay_for_writes_that_last_an_hour() -> None:
    talk = CachedConversation()
    for _ in range(3):
        talk.ask()
        talk.ask(read=0, pause=1_200)
    reader, requests = talk.read()
    assert _list_origins(requests) == ["", "lifetime"] * 3
    assert "they pay from the first pause on" in reader.describe_hour()
    short = CachedConversation()
    for _ in range(4):
        short.ask()
    assert short.read()[0].describe_hour() == ""


def test_without_reports_of_a_cache_nothing_is_a_miss() -> None:
    session = Session("gpt-4o", count="chars/4")
    for _ in range(2):
        session.add(user_message("word " * 8_000))
        size = session.prepare().tokens
        session.add(said("Done."))
        session.record({"prompt_tokens": size, "completion_tokens": 5})
    reader = CacheReader()
    requests = [found for event in session.log.read() if (found := reader.feed(event)) is not None]
    assert not reader.reports_cache
    assert [request.miss for request in requests] == [None, None]


def test_a_clear_is_the_users() -> None:
    talk = CachedConversation()
    talk.ask()
    talk.session.history.clear()
    talk.session.add(user_message("word " * 6_000))
    talk.ask(read=0)
    assert talk.find_last_miss() == ("user", "clear", "first message")
