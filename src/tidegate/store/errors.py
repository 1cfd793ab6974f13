"""Errors of a store, grouped by how the caller should react."""

from tidegate.core.errors import TidegateError


class StaleHead(TidegateError):
    """Another writer appended first and nothing was written: read on from your head and try again."""


class SessionNotFound(TidegateError):
    """There is no such session."""


class DamagedData(TidegateError):
    """Stored data cannot be read as it was written. The text names what is damaged; everything else is readable.

    `first` and `last` are the damaged records, so that code can read on after them; 0 if they are not known.
    """

    def __init__(self, cause: str, remedy: str, first: int = 0, last: int = 0) -> None:
        super().__init__(cause, remedy)
        self.first_record = first
        self.last_record = last


class StoreUnreachable(TidegateError):
    """The database does not answer, or the connection dropped during a call: it may or may not have been done."""
