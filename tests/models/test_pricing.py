"""What a request cost, against prices worked out by hand."""

import pytest

from tidegate.models.catalog import ModelInfo, compute_model_cost
from tidegate.models.pricing import RequestCost, TokenRates, compute_cost
from tidegate.wire.usage import Usage, read_usage

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
