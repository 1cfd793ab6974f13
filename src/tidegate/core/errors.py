"""Errors, by what the caller should do about them. Each carries a remedy in one sentence."""


class TidegateError(Exception):
    """The root: `str()` gives the cause, `remedy` what to do."""

    def __init__(self, cause: str, remedy: str) -> None:
        super().__init__(cause)
        self.remedy = remedy

    def __str__(self) -> str:
        return f"{self.args[0]} {self.remedy}".strip()


class BadInput(TidegateError):
    """What was handed in cannot be read. Nothing was kept of it and nothing else was lost."""


class BadPolicy(TidegateError):
    """A policy or setting is wrong; the text names file, line, key and the nearest right name."""


class BadLog(TidegateError):
    """A record of a log does not follow from those before it: the session cannot be opened as it is."""


class NotKept(TidegateError):
    """The disk, the database or another writer was in the way. Nothing of this was kept; all before it stands."""


class TooSmall(TidegateError):
    """The fixed part leaves no room in the window: refused, with the numbers."""


class BadEdit(TidegateError):
    """An edit would cut a group or touch what may not be touched. A defect of the stage that made it."""


class BadRequest(TidegateError):
    """A rendered request broke a rule of its provider. It was not sent."""


class GiveUp(TidegateError):
    """Every recovery of this turn was tried. The session is whole and can go on."""
