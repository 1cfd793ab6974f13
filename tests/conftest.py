"""Hypothesis tries the same examples every time, so that a run tells of the change and not of the dice.

`HYPOTHESIS_PROFILE=dice` draws fresh ones.
"""

import os

from hypothesis import settings

settings.register_profile("steady", derandomize=True, deadline=None)
settings.register_profile("dice", deadline=None)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "steady"))
