"""Text from outside made safe to print: the one definition of what no terminal may receive from data.

Names, messages, notes and file names come from models, tools and imported files. On a terminal they could move the
cursor, set the window title, write to the clipboard, or show other words than they hold. Three strengths:

- `clean_line`: for a name or any other field that must stay on its line.
- `clean_text`: for text with several lines. Whole escape sequences are removed, so that no "[31m" is left.
- `strip_controls`: the last step before the terminal, on lines that mix our own words with foreign ones. It removes
  single characters only: to look for whole sequences there would let a foreign field swallow our text after it.

JSON stays valid and complete instead: `escape_controls` writes the same characters as `\\uXXXX`.
"""

import re
from typing import Final

from tidegate.core.text.lazy_pattern import LazyPattern

_SEQUENCES: Final = LazyPattern(
    # OSC, DCS and other strings: to their end, or to the end of the line if they have none.
    r"(?:\x1b[\]PX^_]|[\x90\x98\x9d-\x9f])[^\x07\x1b\x9c\n]*(?:\x07|\x1b\\|\x9c)?"
    r"|(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]?"  # CSI
    r"|\x1b[ -/]*[0-~]?"
)
_SEQUENCE_STARTS: Final = re.compile(r"[\x1b\x90\x98\x9b\x9d-\x9f]")
_LINE_ENDS: Final = LazyPattern("\r\n|[\r\x0b\x0c\x85\u2028\u2029]")
_JOINERS: Final = "\u200c\u200d"
CONTROL_CHARACTERS: Final = LazyPattern(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f"  # C0 except tab and line end, DEL, C1
    "\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b\u200e\u200f\u202a-\u202e\u2060-\u206f\u3164\ufeff\uffa0"
    "\ufff0-\ufffb"  # marks of direction, and characters without width
    "\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff]"  # shorthand and music controls, tags
    # Joiners are kept where they join: between characters of scripts that need them, and inside emoji.
    f"|(?<![^\x00-\x7f{_JOINERS}])[{_JOINERS}]|[{_JOINERS}](?![^\x00-\x7f{_JOINERS}])"
)
SURROGATES: Final = LazyPattern("[\ud800-\udfff]")
_USUAL: Final = bytes([9, 10, *range(32, 127)])
_UNUSUAL: Final = re.compile(r"[^\t\n\x20-\x7e…]")  # every text needs it; the last one ends cut titles
_ESCAPED_IN_JSON: Final = LazyPattern(f"{CONTROL_CHARACTERS.source}|[\u2028\u2029\ud800-\udfff]")


def strip_controls(text: str) -> str:
    """The text without control, direction and invisible characters; other line ends become line feeds."""
    if text.isascii():
        if not text.encode().translate(None, _USUAL):
            return text
    elif _UNUSUAL.search(text) is None:
        return text
    return CONTROL_CHARACTERS.sub("", SURROGATES.sub("\ufffd", _LINE_ENDS.sub("\n", text)))


def clean_text(text: str) -> str:
    """The same, with whole escape sequences removed. Lines and tabs stay."""
    if "\x1b" in text or (not text.isascii() and _SEQUENCE_STARTS.search(text)):
        text = _SEQUENCES.sub("", text)
    return strip_controls(text)


def clean_line(text: str) -> str:
    """The same on one line: every run of white space is one space."""
    return " ".join(clean_text(text).split())


def format_visible_name(name: str) -> str:
    """Return a name as one line of visible text, with a mark if something was removed from it."""
    line = clean_line(name)
    return name if line == name else f"{line} (hidden characters)".strip()


def escape_controls(encoded: str) -> str:
    """JSON with the characters of `strip_controls` escaped. It decodes to the same value."""
    return _ESCAPED_IN_JSON.sub(lambda found: "".join(map(_escape_character, found[0])), encoded)


def _escape_character(character: str) -> str:
    code = ord(character)
    if code < 0x10000:
        return f"\\u{code:04x}"
    code -= 0x10000
    return f"\\u{0xD800 + (code >> 10):04x}\\u{0xDC00 + (code & 0x3FF):04x}"
