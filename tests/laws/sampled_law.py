"""A law over generated examples: a few of them in `make test`, more and other ones in `make test-all`."""

from collections.abc import Callable
from inspect import Parameter, Signature, signature
from typing import Any, TypeVar

import pytest
from hypothesis import given, seed, settings
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from tests.laws.conversations import law
from tests.scale import FACTOR

SAMPLES = pytest.mark.parametrize("sample", ["few", pytest.param("more", marks=pytest.mark.exhaustive)])
SEED_OF_MORE = 1
"""The few examples follow from the test's code. More of them must be others."""

Test = Callable[..., None]
T = TypeVar("T", bound=Callable[..., Any])


def sample_settings(sample: str, few: int, more: int) -> settings:
    """Return the settings for one of the two samples."""
    chosen = law(few if sample == "few" else more)
    return chosen if sample == "few" else settings(chosen, derandomize=False)


def seeded(sample: str, check: T) -> T:
    """Make the second sample the same at every run, unless more cases than usual are asked for."""
    return check if sample == "few" or FACTOR > 1 else seed(SEED_OF_MORE)(check)


def sampled_law(few: int, more: int, *strategies: SearchStrategy[Any]) -> Callable[[Test], Test]:
    """Decorate a test whose last parameters are drawn from the strategies; pytest fills those before them."""

    def decorate(test: Test) -> Test:
        parameters = list(signature(test).parameters.values())
        fixed, drawn = parameters[: -len(strategies)], parameters[-len(strategies) :]
        by_name = {parameter.name: strategy for parameter, strategy in zip(drawn, strategies, strict=True)}

        def run(sample: str, **values: object) -> None:
            given_values = {name: st.just(value) for name, value in values.items()}
            check: Test = given(**by_name, **given_values)(test)
            sample_settings(sample, few, more)(seeded(sample, check))()

        run.__name__, run.__doc__, run.__module__ = test.__name__, test.__doc__, test.__module__
        first = Parameter("sample", Parameter.POSITIONAL_OR_KEYWORD)
        run.__signature__ = Signature([first, *fixed])  # type: ignore[attr-defined]
        return SAMPLES(run)

    return decorate
