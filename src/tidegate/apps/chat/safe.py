"""Nothing that a model or a tool wrote gives orders to the terminal: every text passes here before it is shown.

Whole sequences go (what is left of one would be noise), then every sign that moves, hides or turns text. What a person
pasted passes here too. Behind it stands the wall (`wall.py`): no line leaves the app with a control character in it.
"""

import re
from collections.abc import Callable

_SEQUENCES = re.compile(
    r"\x1b\[[0-?]*[ -/]*[@-~]?"  # CSI
    r"|\x1b[\]PX^_][^\x07\x1b\x9c]*(?:\x07|\x1b\\|\x9c)?"  # OSC, DCS and other strings
    r"|\x1b[ -/]*[0-~]?"
    r"|\x9b[0-?]*[ -/]*[@-~]?"
    r"|[\x90\x98\x9d-\x9f][^\x07\x1b\x9c]*(?:\x07|\x1b\\|\x9c)?"
)
_LINE_ENDS = re.compile("\r\n|[\r\x0b\x0c\x85\u2028\u2029]")
HARMFUL = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f"  # C0 but tab and line end, DEL, C1
    "\xad\u061c\u180e\u200b\u200e\u200f\u202a-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb"  # turns, marks, hidden
    "\U000e0000-\U000e0fff]"  # tags and more selectors
)
HALVES = re.compile("[\ud800-\udfff]")
_ANY = re.compile(r"[^\n\x20-\x7e]")
TAB = 4

Mask = Callable[[str], str]


def safe(text: str) -> str:
    """The same text with nothing in it but letters, spaces and line ends."""
    if _ANY.search(text) is None:
        return text
    if "\x1b" in text or "\x9b" in text or "\x90" in text or "\x9d" in text:
        text = _SEQUENCES.sub("", text)
    text = HARMFUL.sub("", _LINE_ENDS.sub("\n", text))
    return HALVES.sub("\ufffd", text).expandtabs(TAB)


def one_line(text: str) -> str:
    return " ".join(safe(text).split())


class Shown:
    """`shown(text)`: masked, then safe. The one way from the log to the screen."""

    def __init__(self, mask: Mask = str) -> None:
        self._mask = mask

    def __call__(self, text: str) -> str:
        # Masked last: signs hidden inside a key would keep it from being seen, and then it would be shown whole.
        return self._mask(safe(text))

    def line(self, text: str) -> str:
        return " ".join(self(text).split())
