"""The fixture `preset`: the way every seed test comes by its policy, so that it can be changed behind its back."""

import pytest

from tests.seeds.mutate import plain
from tests.seeds.talk import Preset


@pytest.fixture
def preset() -> Preset:
    return plain
