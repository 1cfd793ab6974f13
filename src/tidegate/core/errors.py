"""Errors, grouped by how the caller should react. Each has a remedy in one sentence."""


class TidegateError(Exception):
    """The root of all errors. `str()` gives cause and remedy, `remedy` only what to do next."""

    def __init__(self, cause: str, remedy: str) -> None:
        super().__init__(cause)
        self.remedy = remedy

    def __str__(self) -> str:
        return f"{self.args[0]} {self.remedy}".strip()


class BadInput(TidegateError):
    """The input cannot be read. Nothing of it was stored, and nothing else was lost."""


class BadPolicy(TidegateError):
    """A policy or setting is wrong. The text names file, line, key and the most similar valid name."""


class BadLog(TidegateError):
    """A record of the log cannot follow those before it. The session cannot be opened as it is."""


class NotKept(TidegateError):
    """The disk, the database or another writer prevented the write. Nothing was stored; earlier data is intact."""


class TooSmall(TidegateError):
    """The system prompt and the tools leave no room in the window. The text has the numbers."""


class BadEdit(TidegateError):
    """An edit would cut a group or touch the newest user message. This is a defect of the stage that made it."""


class BadRequest(TidegateError):
    """A rendered request breaks a rule of its provider. It was not sent."""


class UnknownWindowWarning(UserWarning):
    """The context window of a model is not known, so a conservative one is assumed."""


class IgnoredResultWarning(UserWarning):
    """A tool result has no call, or its call has a result already. It is in the log and not in requests."""


class SystemMessageWarning(UserWarning):
    """A conversation begins with a system message that was added as a message, and not given as its system prompt."""


class GiveUp(TidegateError):
    """All recoveries of this request were used up. The session is intact and can continue."""
