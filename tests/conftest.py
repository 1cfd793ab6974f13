"""Hypothesis tries the same examples every time, so that a run tells of the change and not of the dice.

`HYPOTHESIS_PROFILE=dice` draws fresh ones. Signals that whoever began the run had ignored (`nohup`, a job in the
background) are heard again: programs that tests start, and stop by them, would ignore them, too.

The garbage collector rests while the tests are collected, never looks at what was collected, and works less often
than usual: it took a quarter of the time.
"""

import gc
import os
import signal
from collections.abc import Generator

import pytest
from hypothesis import settings

for _number, _usual in ((signal.SIGINT, signal.default_int_handler), (signal.SIGHUP, signal.SIG_DFL)):
    if signal.getsignal(_number) is signal.SIG_IGN:
        signal.signal(_number, _usual)

settings.register_profile("steady", derandomize=True, deadline=None)
settings.register_profile("dice", deadline=None)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "steady"))


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.set_threshold(10_000)
        gc.enable()
