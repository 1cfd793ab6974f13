"""Write the summary that replaces a model's, the same for every peer that asks for one.

It is extractive and deterministic: shortened user messages, the files and addresses that were named, the calls with
the first line of their results, and the last answer. An earlier summary among the messages is included. A model would
write better prose; the lab compares when, how often and of what a peer requests a summary. Standard library only.
"""

# mypy: disable-error-code="import-not-found"

import re
from collections.abc import Iterable, Sequence

from chat_messages import CHARS_PER_TOKEN, Chat, count_chat_tokens, read_chat_text

SUMMARY_TITLE = "Summary of earlier messages"
_SECTION_SHARES = {"Said by the user": 0.4, "Files and addresses": 0.2, "Done": 0.3, "Last said": 0.1}
"""The share of the space that each section may take."""

_WINDOW_DIVISOR = 16
"""A summary takes a sixteenth of the window at most."""

_QUOTE, _CALL, _FIRST_LINE = 400, 120, 100
_NAME = re.compile(r"https?://[^\s\"'<>)\]]+|(?:[\w.@~-]*/)+[\w.@-]+\w|\b[\w-]+\.[A-Za-z]{1,5}\b")
_SPACE = re.compile(r"\s+")


class ExtractiveSummarizer:
    """Writes the summaries of one recording and counts their tokens."""

    def __init__(self, window: int) -> None:
        self.limit = max(400, window * CHARS_PER_TOKEN // _WINDOW_DIVISOR)
        self._spent: list[dict[str, int]] = []

    def write(self, messages: Sequence[Chat]) -> str:
        text = write_extractive_summary(messages, self.limit)
        self._spent.append({"read": count_chat_tokens(messages), "written": len(text) // CHARS_PER_TOKEN})
        return text

    def take_summary_costs(self) -> list[dict[str, int]]:
        """Return the costs of the summaries since the last call."""
        costs, self._spent = self._spent, []
        return costs


def write_extractive_summary(messages: Sequence[Chat], limit: int) -> str:
    """Return a summary of at most `limit` characters."""
    lines_by_section: dict[str, list[str]] = {section: [] for section in _SECTION_SHARES}
    outcomes = {message["tool_call_id"]: read_chat_text(message) for message in messages if message.get("tool_call_id")}
    for message in messages:
        text = read_chat_text(message)
        if SUMMARY_TITLE in text:
            _carry(text, lines_by_section)
        elif message["role"] == "user":
            lines_by_section["Said by the user"].append(_short(text, _QUOTE))
            lines_by_section["Files and addresses"] += _NAME.findall(text[:2000])
        elif message["role"] == "assistant":
            lines_by_section["Last said"] = [_short(text, _QUOTE)] if text.strip() else lines_by_section["Last said"]
            _calls(message, outcomes, lines_by_section)
    lines = [SUMMARY_TITLE]
    for section, share in _SECTION_SHARES.items():
        newest = _newest(lines_by_section[section], int(share * (limit - 100)))
        if newest:
            lines += [f"{section}:", *(f"- {line}" for line in newest)]
    return "\n".join(lines)[:limit]


def _calls(message: Chat, outcomes: dict[str, str], lines_by_section: dict[str, list[str]]) -> None:
    for call in message.get("tool_calls") or ():
        name, arguments = call["function"]["name"], call["function"]["arguments"]
        outcome = outcomes.get(call.get("id"), "").strip().split("\n", 1)[0]
        lines_by_section["Done"].append(f"{name} {_short(arguments, _CALL)} -> {_short(outcome, _FIRST_LINE)}")
        lines_by_section["Files and addresses"] += _NAME.findall(arguments[:2000])


def _carry(text: str, lines_by_section: dict[str, list[str]]) -> None:
    """Add the lines of an earlier summary, without the text that a peer put around it."""
    section = ""
    for line in text[text.index(SUMMARY_TITLE) :].split("\n"):
        if line.removesuffix(":") in lines_by_section:
            section = line.removesuffix(":")
        elif section and line.startswith("- "):
            lines_by_section[section].append(line[2:])


def _short(text: str, most: int) -> str:
    line = _SPACE.sub(" ", text[: 2 * most]).strip()
    return line if len(line) <= most else line[: most - 3] + "..."


def _newest(lines: Iterable[str], room: int) -> list[str]:
    """Return each line once: the first one, then the newest that fit, in order."""
    distinct = list(dict.fromkeys(line for line in reversed(list(lines)) if line))
    if not distinct:
        return []
    newest = [distinct[-1]]
    room -= len(distinct[-1]) + 3
    for line in distinct[:-1]:
        room -= len(line) + 3
        if room < 0:
            break
        newest.insert(1, line)
    return newest
