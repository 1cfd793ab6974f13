"""Assertions with messages, and sample data, for the checks."""

from collections.abc import Callable

from tidegate.core.errors import TidegateError
from tidegate.store.store import SessionInfo, Store


def expect_equal(actual: object, expected: object, what: str) -> None:
    if actual != expected:
        raise AssertionError(f"{what}: {abbreviate_repr(actual)} instead of {abbreviate_repr(expected)}")


def abbreviate_repr(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 200 else f"{text[:200]}... ({len(text)} characters)"


def expect_error(error: type[TidegateError], what: str, act: Callable[[], object]) -> None:
    try:
        act()
    except error as refusal:
        if not refusal.remedy:
            raise AssertionError(f"{what}: the {error.__name__} has no remedy") from refusal
        return
    except Exception as other:
        raise AssertionError(f"{what}: {type(other).__name__} instead of {error.__name__}: {other}") from other
    raise AssertionError(f"{what}: no {error.__name__} was raised")


def read_records(store: Store, session: str, start: int = 1) -> list[bytes]:
    return list(store.read(session, start))


def make_records(first: int, last: int) -> list[bytes]:
    return [b"record %d " % number + bytes([number % 256]) * (number % 40) for number in range(first, last + 1)]


def get_session_info(store: Store, name: str) -> SessionInfo:
    infos = [info for info in store.sessions() if info.name == name]
    expect_equal(len(infos), 1, f"entries of {name!r} in sessions()")
    return infos[0]
