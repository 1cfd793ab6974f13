"""Hypothesis tries the same examples every time, so that a run tells of the change and not of the dice.

`HYPOTHESIS_PROFILE=dice` draws fresh ones. Signals that whoever began the run had ignored (`nohup`, a job in the
background) are heard again: programs that tests start, and stop by them, would ignore them, too.

After each file, freed memory goes back to the system: the C library would keep it, and a worker would grow to 1 GB.

HTTP clients trust one certificate that nobody has the key of. To load those of the system takes each client longer
than most tests, and no test speaks to a server outside of this machine.

The garbage collector rests while the tests are collected, never looks at what was collected, and works less often
than usual: it took a quarter of the time.
"""

import ctypes
import gc
import os
import signal
from collections.abc import Generator, Iterator
from pathlib import Path

import pytest
from hypothesis import settings

for _number, _usual in ((signal.SIGINT, signal.default_int_handler), (signal.SIGHUP, signal.SIG_DFL)):
    if signal.getsignal(_number) is signal.SIG_IGN:
        signal.signal(_number, _usual)

os.environ["SSL_CERT_FILE"] = str(Path(__file__).with_name("no_authority.pem"))

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


@pytest.fixture(scope="module", autouse=True)
def freed_memory_is_returned() -> Iterator[None]:
    yield
    return_freed_memory = getattr(ctypes.CDLL(None), "malloc_trim", None)  # glibc has it
    if return_freed_memory is not None:
        return_freed_memory(0)
