"""Who says what a summary says: the user, a tool, or the agent. A line without an author could pass for an order."""

import re
from typing import Final

from tidegate.core.harvest import HELD

CONCLUDED: Final = "agent concluded: "

_ITEM: Final = re.compile(r"(?:[-*+]|\d{1,3}[.)])\s+")
_AUTHOR: Final = re.compile(
    r"(?:[-*+]|\d{1,3}[.)])?[\s(*_\"]*(?:the\s)?(?:user|agent|assistant|tools?|system|words found|noted)\b",
    re.IGNORECASE,
)
_USER: Final = re.compile(r"[\s(*_\"]*(?:the\s)?(?:user|system)\b", re.IGNORECASE)
_OTHER: Final = ("#", "|", ">", " ", "\t")  # headings, tables, quotes, and what goes on with the line above


def attributed(text: str) -> str:
    """Each line with its author. One that names none is what the writer made of it: a conclusion of the agent."""
    lines: list[str] = []
    fenced = False
    for line in text.split("\n"):
        fence = line.lstrip().startswith("```")
        fenced ^= fence
        lines.append(line if fence or fenced else _attributed(line))
    return "\n".join(lines)


def by_user(line: str) -> bool:
    """Whether a line of a summary says what the user or the system said; not what a text that came along held."""
    return _USER.match(line) is not None and not line.startswith(HELD)


def _attributed(line: str) -> str:
    item = _ITEM.match(line)
    said = line[item.end() :] if item else line
    if not said.strip() or line.startswith(_OTHER) or said.rstrip().endswith(":") or _AUTHOR.match(line):
        return line
    return f"{item[0] if item else '- '}{CONCLUDED}{said}"
