"""What tests of promises that need a disk and a restart share: a data folder, and processes that are killed."""

import multiprocessing
import os
import signal
import traceback
from collections.abc import Callable
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from tests.seeds.talk import (
    SYSTEM,
    Scribe,
    only,
)
from tidegate import Policy, Session, SummaryRequest
from tidegate.datafolder.data_folder import DataFolder

WINDOW = 100_000


class Chronicle(Scribe):
    """A scribe that never says the same twice: memory keeps what it has already heard only once."""

    def __call__(self, request: SummaryRequest) -> str:
        super().__call__(request)
        return f"{self.text} {len(self.asked)}"


def kept(data: DataFolder, policy: Policy, name: str = "s", model: str = "", **more: Any) -> Session:
    return data.open(name, model, policy=policy, **{"window": 200_000, "system": SYSTEM, "count": "chars/4", **more})


def elsewhere(act: Callable[[], Any]) -> Any:
    """What `act` gives in another process, which is then killed: it closes nothing and says goodbye to nobody.

    What fails there fails here.
    """
    context = multiprocessing.get_context("fork")
    here, there = context.Pipe(duplex=False)

    def child(answer: Connection) -> None:
        try:
            answer.send((act(), ""))
        except BaseException:  # noqa: BLE001 - it is passed on
            answer.send((None, traceback.format_exc()))
        os.kill(os.getpid(), signal.SIGKILL)

    process = context.Process(target=child, args=(there,))
    process.start()
    there.close()
    try:
        given, failure = here.recv()
    finally:
        process.join()
    assert not failure, failure
    return given


def memory(folder: Path) -> str:
    """The daily memory file, of which there must be one."""
    day = only(list((folder / "memory").glob("????-??-??.md")))
    return day.read_text()
