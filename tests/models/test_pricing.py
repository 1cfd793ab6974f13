"""What a request cost, against prices worked out by hand."""

import pytest

from tidegate import Session
from tidegate.core.usage import Usage
from tidegate.models.catalog import ModelInfo, compute_model_cost
from tidegate.models.pricing import RequestCost, TokenRates, compute_cost
from tidegate.session.costs import CostReport
from tidegate.wire.answers import read_usage

CLAUDE = TokenRates(input=3.0, output=15.0, cached=0.3, written=3.75)
STEPS = (
    TokenRates(input=1.25, output=10.0, cached=0.125),
    TokenRates(input=2.5, output=15.0, cached=0.25, above=200_000),
)


def paid(usage: Usage, *rates: TokenRates) -> RequestCost:
    found = compute_cost(usage, rates)
    assert found is not None
    return found


def test_each_part_at_its_own_rate() -> None:
    """10,000 read: 6,000 from the cache, 1,000 into it, 3,000 plain."""
    told = paid(Usage(10_000, 2_000, 6_000, 1_000), CLAUDE)
    assert told == pytest.approx((0.009, 0.0018, 0.00375, 0.03, 0.04455))
    assert told.total == pytest.approx(sum(told[:4]))


@pytest.mark.parametrize(
    ("tokens", "total"),
    [(0, 0.01), (200_000, 0.26), (200_001, 0.5150025)],
)
def test_a_prompt_above_the_step_pays_the_dearer_rate_for_all_of_it(tokens: int, total: float) -> None:
    assert paid(Usage(tokens, 1_000, 0, 0), *STEPS).total == pytest.approx(total)


def test_cached_tokens_count_towards_the_step() -> None:
    assert paid(Usage(250_000, 0, 240_000, 0), *STEPS).cached == pytest.approx(0.06)


def test_a_cache_without_a_price_of_its_own_is_not_free() -> None:
    plain = TokenRates(input=2.0, output=4.0)
    assert paid(Usage(1_000_000, 0, 400_000, 100_000), plain).total == pytest.approx(2.0)
    free = TokenRates(input=2.0, output=4.0, written=0.0)
    assert paid(Usage(1_000_000, 0, 400_000, 100_000), free).total == pytest.approx(1.8)


def test_a_report_that_does_not_add_up_never_makes_a_price_negative() -> None:
    told = paid(Usage(10, 0, 500, 500), CLAUDE)
    assert told.input == 0
    assert told.total > 0


def test_unknown_is_none_and_free_is_zero() -> None:
    usage = Usage(1_000, 1_000, 0, 0)
    assert compute_model_cost(usage, "my-own-model") is None
    assert compute_model_cost(usage, None) is None
    assert compute_model_cost(usage, ModelInfo(window=8_192)) is None
    mine = {"my-own-model": ModelInfo(prices=(TokenRates(input=0, output=0),))}
    assert compute_model_cost(usage, "my-own-model", mine) == RequestCost(0, 0, 0, 0, 0)


def test_from_the_report_of_a_provider_to_dollars() -> None:
    anthropic = {"input_tokens": 3_000, "cache_read_input_tokens": 6_000, "cache_creation_input_tokens": 1_000}
    told = compute_model_cost(read_usage(anthropic | {"output_tokens": 2_000}), "claude-sonnet-4-5-20250929")
    assert told is not None
    assert told.total == pytest.approx(0.04455)
    openai = {"prompt_tokens": 10_000, "completion_tokens": 100, "prompt_tokens_details": {"cached_tokens": 8_000}}
    told = compute_model_cost(read_usage(openai), "gpt-5")
    assert told is not None
    assert told.total == pytest.approx(2_000 * 1.25e-6 + 8_000 * 0.125e-6 + 100 * 10e-6)


@pytest.mark.parametrize(
    ("report", "read"),
    [
        pytest.param(
            # platform.claude.com/docs/en/build-with-claude/prompt-caching: two lifetimes in one answer
            {
                "input_tokens": 2_048,
                "cache_read_input_tokens": 1_800,
                "cache_creation_input_tokens": 248,
                "output_tokens": 503,
                "cache_creation": {"ephemeral_5m_input_tokens": 148, "ephemeral_1h_input_tokens": 100},
            },
            Usage(4_096, 503, 1_800, 248, 100),
            id="anthropic",
        ),
        pytest.param(
            {
                "input_tokens": 2_006,
                "output_tokens": 300,
                "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 1_920},
                "output_tokens_details": {"reasoning_tokens": 128},
            },
            Usage(2_006, 300, 0, 1_920),
            id="responses",
        ),
        pytest.param(
            {
                "prompt_tokens": 2_006,
                "completion_tokens": 300,
                "prompt_tokens_details": {"cached_tokens": 1_024, "cache_write_tokens": 896},
            },
            Usage(2_006, 300, 1_024, 896),
            id="chat",
        ),
        pytest.param(
            {
                "promptTokenCount": 1_000,
                "cachedContentTokenCount": 600,
                "candidatesTokenCount": 50,
                "thoughtsTokenCount": 400,
                "toolUsePromptTokenCount": 30,
                "totalTokenCount": 1_480,
            },
            Usage(1_030, 450, 600, 0),
            id="gemini",
        ),
    ],
)
def test_each_providers_own_counts(report: dict[str, object], read: Usage) -> None:
    assert read_usage(report) == read


def test_an_hour_in_the_cache_costs_twice_the_input_price() -> None:
    """10,000 written, 4,000 of them for an hour: 6,000 at 3.75 and 4,000 at 6 dollars a million."""
    assert paid(Usage(10_000, 0, 0, 10_000, 4_000), CLAUDE).written == pytest.approx(0.0465)


@pytest.mark.parametrize(
    ("model", "share"),
    [("claude-opus-5", 0.1), ("claude-opus-5-5", 0.05), ("claude-sonnet-5-5", 0.05), ("claude-fable-5-2", 0.025)],
)
def test_reading_from_the_cache_costs_what_the_model_asks(model: str, share: float) -> None:
    fresh, cached = (compute_model_cost(Usage(1_000, 0, read, 0), model) for read in (0, 1_000))
    assert fresh is not None
    assert cached is not None
    assert cached.total == pytest.approx(share * fresh.total)


def test_writing_to_openais_cache_costs_more_from_gpt_5_6_on() -> None:
    for model, times in (("gpt-5.5", 1.0), ("gpt-5.6", 1.25), ("gpt-6.1-sol", 1.25)):
        fresh, written = (compute_model_cost(Usage(1_000, 0, 0, kept), model) for kept in (0, 1_000))
        assert fresh is not None
        assert written is not None
        assert written.total == pytest.approx(times * fresh.total)


def test_a_long_prompt_of_haiku_5_5_costs_five_times_as_much() -> None:
    short, long = (compute_model_cost(Usage(tokens, 0, 0, 0), "claude-haiku-5-5") for tokens in (100_000, 100_001))
    assert short is not None
    assert long is not None
    assert long.total == pytest.approx(5 * short.total, rel=1e-3)


# platform.claude.com/docs/en/build-with-claude/compaction-threshold: the example of an answer
COMPACTED = {
    "input_tokens": 23_000,
    "output_tokens": 1_000,
    "iterations": [
        {"type": "compaction", "input_tokens": 180_000, "output_tokens": 3_500},
        {"type": "message", "input_tokens": 23_000, "output_tokens": 1_000},
    ],
}


def test_a_compaction_by_the_provider_is_paid_and_does_not_enlarge_the_request() -> None:
    session = Session("claude-opus-5-5", window=200_000)
    session.add({"role": "user", "content": "Go on."})
    session.prepare()
    session.record(COMPACTED)
    report = CostReport(session.log)
    total = report.read_all()
    assert (total.calls, total.input_tokens, total.output_tokens) == (1, 23_000, 1_000)
    assert report.by_purpose["compaction"].side_tokens == 183_500
    assert total.dollars == pytest.approx((203_000 * 4 + 4_500 * 20) / 1e6)


def test_a_compaction_on_demand_is_no_request_of_the_conversation() -> None:
    session = Session("claude-opus-5-5", window=200_000)
    session.add({"role": "user", "content": "Go on."})
    session.prepare()
    only = {"type": "compaction", "input_tokens": 180_000, "output_tokens": 3_500}
    session.record({"input_tokens": 0, "output_tokens": 0, "iterations": [only]})
    total = CostReport(session.log).read_all()
    assert (total.calls, total.input_tokens, total.side_tokens) == (0, 0, 183_500)
    assert total.dollars == pytest.approx((180_000 * 4 + 3_500 * 20) / 1e6)


def test_what_an_hour_in_the_cache_costs_is_in_the_cost_of_the_session() -> None:
    session = Session("claude-opus-5", window=200_000)
    session.add({"role": "user", "content": "Go on."})
    session.prepare()
    written = {"cache_creation_input_tokens": 10_000, "cache_creation": {"ephemeral_1h_input_tokens": 10_000}}
    session.record({"input_tokens": 0, "output_tokens": 0} | written)
    assert CostReport(session.log).read_all().dollars == pytest.approx(10_000 * 2 * 5 / 1e6)
