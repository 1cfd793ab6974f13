"""The findings of the doctor."""

from typing import Final, Literal

import msgspec

from tidegate.core.text.terminal_text import clean_line

COMPLETED_LATER: Final = "It is completed at the next opening, or now with --repair."
Severity = Literal["fine", "mended", "unfinished", "broken", "lost"]


class Finding(msgspec.Struct, frozen=True):
    """One finding. `fine`: nothing to do. `mended`: repaired. `unfinished`: interrupted, completed at the next opening.
    `broken`: not repaired. `lost`: data is lost, reported once.

    An empty `session` means the data folder, or what the sessions of a tenant share. A finding contains numbers and
    names, never content of messages.
    """

    session: str
    what: str
    severity: Severity
    remedy: str = ""
    tenant: str = ""

    def __str__(self) -> str:
        where = f"session {self.session!r}" if self.session else "" if self.tenant else "data folder"
        where = ", ".join(part for part in (f"tenant {self.tenant!r}" if self.tenant else "", where) if part)
        return f"{self.severity:<6}  {where}: {clean_line(self.what)} {clean_line(self.remedy)}".rstrip()
