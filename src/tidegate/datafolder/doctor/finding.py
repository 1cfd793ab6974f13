"""What the doctor says."""

from typing import Literal

import msgspec

from tidegate.core.text.terminal_text import clean_line

Severity = Literal["fine", "mended", "unfinished", "broken", "lost"]


class Finding(msgspec.Struct, frozen=True):
    """`fine`: nothing to do. `mended`: was wrong, is right. `unfinished`: interrupted, completed at the next opening.
    `broken`: is wrong still. `lost`: gone for good, said once.

    An empty `session` is the data folder. It tells numbers and names, never what was said.
    """

    session: str
    what: str
    severity: Severity
    remedy: str = ""

    def __str__(self) -> str:
        where = f"session {self.session!r}" if self.session else "data folder"
        return f"{self.severity:<6}  {where}: {clean_line(self.what)} {clean_line(self.remedy)}".rstrip()
