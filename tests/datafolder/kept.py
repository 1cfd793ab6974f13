"""Data folders with something in them, for the tests of what is kept."""

import itertools
from collections.abc import Callable
from pathlib import Path

from tidegate import Session
from tidegate.core.events import encode_event
from tidegate.datafolder.data_folder import DataFolder
from tidegate.proof.session_generator import generate_session

SECRETS = ["correct-horse-battery"]


def ticking() -> Callable[[], float]:
    now = itertools.count(1_700_000_000)
    return lambda: float(next(now))


def folder(path: Path) -> DataFolder:
    return DataFolder(path, secrets=SECRETS, clock=ticking())


def opened(data: DataFolder, name: str, *, window: int = 16_000) -> Session:
    """Of a model whose vocabulary nobody knows: it is counted by the estimate, here and where it is imported."""
    return data.open(name, "house-7b", window=window)


def talk(session: Session, *, turns: int = 10, seed: int = 1) -> bytes:
    """A working session, with its compactions; gives the bytes of its last request."""
    for message in generate_session(turns, seed=seed):
        if message["role"] == "system":
            session.set_system(str(message["content"]))
            continue
        if message["role"] == "user" and session.view.message_count:
            session.prepare()
        session.add(message)
    return session.prepare().to_bytes()


def filled(data: DataFolder, *names: str, turns: int = 10) -> dict[str, bytes]:
    """Sessions of these names, and the last request of each."""
    requests: dict[str, bytes] = {}
    for seed, name in enumerate(names, 1):
        with opened(data, name) as session:
            requests[name] = talk(session, turns=turns, seed=seed)
    return requests


def records(data: DataFolder, name: str) -> list[bytes]:
    return [encode_event(event) for event in data.open_log(name).read()]
