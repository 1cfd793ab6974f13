"""Hypothesis tries the same examples every time, so that a run tells of the change and not of the dice.

`HYPOTHESIS_PROFILE=dice` draws fresh ones. Signals that whoever began the run had ignored (`nohup`, a job in the
background) are heard again: programs that tests start, and stop by them, would ignore them, too.

After each file, freed memory goes back to the system: the C library would keep it, and a worker would grow to 1 GB. A
worker that has become large also forgets its token vocabularies then (all of them take 350 MB, and each is loaded in
0.1 s) and collects what is garbage in cycles, for example a closed model of 25 MB.

HTTP clients trust one certificate that nobody has the key of. To load those of the system takes each client longer
than most tests, and no test speaks to a server outside of this machine.

Temporary files are in memory where the system has a file system for it: most tests write a database, and a disk takes
milliseconds for each fsync. Those of tests that passed are removed at once.

The garbage collector rests while the tests are collected, never looks at what was collected, and works less often
than usual: it took a quarter of the time.

After a test that failed, its leftovers (sockets, processes) are dropped at once and in silence. They would otherwise
be found during any later test, which would fail for it.

A run has one worker more than cores: a fifth of its time a worker waits for a program or a server that a test started.

What Hypothesis knows of Unicode is computed while the workers collect the tests, and kept in a file: each worker would
otherwise need two seconds and 200 MB for it.

At the end of a run is a line with the memory and the CPU time of each worker.
"""

import ctypes
import gc
import os
import resource
import shutil
import signal
import sys
from collections.abc import Generator, Iterator
from pathlib import Path

import pytest
from _pytest.terminal import TerminalReporter
from hypothesis import settings
from hypothesis import strategies as st

from tests.scale import mark_other_variants

for _number, _usual in ((signal.SIGINT, signal.default_int_handler), (signal.SIGHUP, signal.SIG_DFL)):
    if signal.getsignal(_number) is signal.SIG_IGN:
        signal.signal(_number, _usual)

MEMORY = Path("/dev/shm")
if MEMORY.is_dir() and shutil.disk_usage(MEMORY).free > 2 << 30:
    os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(MEMORY))

os.environ["SSL_CERT_FILE"] = str(Path(__file__).with_name("no_authority.pem"))

settings.register_profile("steady", derandomize=True, deadline=None)
settings.register_profile("dice", deadline=None)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "steady"))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    cores = len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count() or 1
    return cores + 1


@pytest.hookimpl(wrapper=True)
def pytest_collection(session: pytest.Session) -> Generator[None, object, object]:
    if not hasattr(session.config, "workerinput"):
        st.text().validate()
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.set_threshold(10_000)
        gc.enable()


class WorkerMemory:
    """What this process may hold at the end of a file before it looks for what it can free."""

    LARGE = 300 << 20
    MORE = 64 << 20

    def __init__(self) -> None:
        self.limit = self.LARGE

    def free(self) -> None:
        counters = sys.modules.get("tidegate.models.token_counters")
        if self.measure() > self.limit:
            if counters is not None:
                counters.load_exact_counter.cache_clear()
                counters.load_text_counter.cache_clear()
            gc.collect()
        return_freed_memory = getattr(ctypes.CDLL(None), "malloc_trim", None)  # glibc has it
        if return_freed_memory is not None:
            return_freed_memory(0)
        self.limit = max(self.LARGE, self.measure() + self.MORE)

    def measure(self) -> int:
        pages = Path("/proc/self/statm")
        return int(pages.read_text().split()[1]) * os.sysconf("SC_PAGESIZE") if pages.exists() else 0


WORKER_MEMORY = WorkerMemory()


@pytest.fixture(scope="module", autouse=True)
def freed_memory_is_returned() -> Iterator[None]:
    yield
    WORKER_MEMORY.free()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    failed_before = item.session.testsfailed
    result = yield
    if item.session.testsfailed > failed_before:
        for name in ("last_type", "last_value", "last_traceback", "last_exc"):
            vars(sys).pop(name, None)
        hook, sys.unraisablehook = sys.unraisablehook, lambda _: None
        try:
            gc.collect()
        finally:
            sys.unraisablehook = hook
    return result


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> Generator[None, object, object]:
    mark_other_variants(items)
    result = yield
    items.sort(key=lambda item: item.get_closest_marker("sdk") is None)  # the first worker begins with the first tests
    return result


WORKERS = pytest.StashKey[list[str]]()


def describe_resources() -> str:
    """Return the peak of the memory of this process, and the CPU time of it and of the programs that it started."""
    own, others = resource.getrusage(resource.RUSAGE_SELF), resource.getrusage(resource.RUSAGE_CHILDREN)
    seconds = own.ru_utime + own.ru_stime + others.ru_utime + others.ru_stime
    unit = 1 << (20 if sys.platform == "darwin" else 10)  # of ru_maxrss: bytes on macOS, kB elsewhere
    return f"{own.ru_maxrss / unit:.0f} MB, {seconds:.0f} s"


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    output: dict[str, object] | None = getattr(session.config, "workeroutput", None)
    if output is not None:
        output["resources"] = describe_resources()


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: object) -> None:
    """A worker of pytest-xdist has ended."""
    output, config = getattr(node, "workeroutput", {}), getattr(node, "config", None)
    if config is not None and "resources" in output:
        config.stash.setdefault(WORKERS, []).append(output["resources"])


def pytest_terminal_summary(terminalreporter: TerminalReporter, config: pytest.Config) -> None:
    workers = config.stash.get(WORKERS, None) or [describe_resources()]
    terminalreporter.write_line(f"most memory and CPU time of each worker: {'; '.join(workers)}")
