"""The lab on a Dask cluster: `--engine dask://scheduler:8786`. The extra `cluster` installs what it needs.

A task whose worker is lost is started again on another one. Tasks have no effect but their result, so that changes
nothing but the time.
"""

from collections.abc import Generator, Sequence
from importlib import import_module
from typing import Any, Final, TypeVar

from tidegate.core.errors import BadInput, TidegateError
from tidegate.lab.worker_pool import Engine, ProcessEngine, Work, never_stop

_T = TypeVar("_T")
_R = TypeVar("_R")
_SCHEME: Final = "dask://"
_CONNECT_SECONDS: Final = 20
_MAX_LOSSES: Final = 5
"""So often a task is started again after its workers were lost; then it is likely that it kills them."""


def open_engine(address: str, jobs: int) -> Engine:
    """The engine for the value of `--engine`: empty for processes of this machine, or dask://HOST:PORT."""
    if not address:
        return ProcessEngine(jobs)
    if not address.startswith(_SCHEME) or len(address) == len(_SCHEME):
        raise BadInput(f"{address[:80]!r} is not an engine.", "Give dask://HOST:PORT, the address of a Dask scheduler.")
    return DaskEngine(address.removeprefix(_SCHEME))


class DaskEngine:
    is_remote = True

    def __init__(self, address: str) -> None:
        try:
            self._dask: Any = import_module("distributed")
        except ImportError as absent:
            raise BadInput(
                f"A Dask cluster needs a package that is not installed: {absent.name}.",
                "Run: pip install 'tidegate[cluster]'",
            ) from None
        self._address = f"tcp://{address}"

    def run(self, work: Work[_T, _R], tasks: Sequence[_T]) -> Generator[_R, None, None]:
        if not tasks:
            return
        try:
            client = self._dask.Client(self._address, timeout=_CONNECT_SECONDS, set_as_default=False)
        except OSError as failure:
            raise TidegateError(
                f"The Dask scheduler at {self._address} does not answer.", "Check its address and that it runs."
            ) from failure
        try:
            yield from self._run(client, work, tasks)
        finally:
            client.close()

    def _run(self, client: Any, work: Work[_T, _R], tasks: Sequence[_T]) -> Generator[_R, None, None]:
        losses = [0] * len(tasks)

        def submit(number: int) -> Any:
            # The name is new each time: a failed task of the same name would be remembered.
            key = f"tidegate-{client.id}-{number}-{losses[number]}"
            return client.submit(_run_task, work, tasks[number], key=key, pure=False, priority=-number)

        numbers = {submit(number): number for number in range(len(tasks))}
        waiting = self._dask.as_completed(list(numbers), loop=client.loop)
        for future in waiting:
            number = numbers.pop(future)
            if future.status == "finished":
                try:
                    yield future.result()
                    continue
                except OSError:  # the worker was lost before its result was fetched
                    pass
            elif future.status == "error" and not _is_loss(future.exception()):
                future.result()
            losses[number] += 1
            if losses[number] > _MAX_LOSSES:
                raise TidegateError(
                    f"A task was lost with its worker {losses[number]} times.",
                    "Look at the workers' memory, or run it here without --engine.",
                )
            again = submit(number)
            numbers[again] = number
            waiting.add(again)


def _is_loss(failure: object) -> bool:
    return type(failure).__name__ in ("KilledWorker", "FutureCancelledError", "CancelledError", "CommClosedError")


def _run_task(work: Work[_T, _R], task: _T) -> _R:
    return work(task, never_stop)
