"""Texts that clients put into messages of the user: attached files, reminders, output of commands, bodies of skills.

A client sends such a text as a separate part of a message, or as a message. So its borders are certain, whatever it
contains: a file that imitates a form here, or the end of one, is only one more part that nobody typed. Inside a single
text no border is certain, so nothing is cut out of one here (`core/text/rule_text.py` reads single texts).

The forms were recorded with the clients that docs/gateway.md names.
"""

from typing import Final

import msgspec

from tidegate.core.messages import CLIENT_NOTE, MENTIONED_FILE, Image, MarkedText, Message, Part, Text
from tidegate.core.text.lazy_pattern import LazyPattern

_SKILL_START: Final = "Base directory for this skill: "  # Claude Code
_STARTS: Final = (
    MENTIONED_FILE,  # an older chat of tidegate
    "[Request interrupted by user",  # Claude Code
    _SKILL_START,
    "This session is being continued from a previous conversation",
    "# AGENTS.md instructions for ",  # Codex
    "# Context from my IDE setup:",
    "Called the Read tool with the following input: ",  # OpenCode
    "The following tool was executed by the user",
    "I ran the following shell command:\n```",  # Gemini CLI, Qwen Code
    "Here are some READ ONLY files, provided for your reference.",  # aider
    "Here are summaries of some files present in my git repo.",
    "I have *added these files to the chat*",
    "I switched to a new code base.",
)
"""How a text begins that a client added."""
_FILE_STARTS: Final = (
    "Called the Read tool with the following input: ",  # OpenCode
    "--- Content from referenced files ---",  # Gemini CLI, Qwen Code
    "Here are some READ ONLY files, provided for your reference.",  # aider
    "I have *added these files to the chat*",
)
"""How a line begins after which files follow that the client attached."""
_REST_STARTS: Final = (
    "--- Content from referenced files ---",  # Gemini CLI, Qwen Code: the files follow as they are
    "<command-message>",  # Claude Code: the text of the command follows
    "<command-name>",
)
"""How a text begins after which all texts of the message were added, too."""
_SENT_MEANWHILE: Final = "The user sent a new message while you were working:"
_INTERRUPTION: Final = LazyPattern(r"\[Request interrupted by user(?: for tool use)?\]\s*")
_FIRST_TAG: Final = LazyPattern(r"\s*<[A-Za-z][\w.:-]*(?:\s[^<>]*)?>")
_LAST_TAG: Final = LazyPattern(r"</[A-Za-z][^<>]*>\s*$")
_END_CHARS: Final = 200
"""Characters at each end of a text that are read to recognize its form."""


def mark_added_texts(message: Message) -> Message:
    """Mark the texts without a mark that a client added to a user message as not typed."""
    if message.role != "user":
        return message
    parts: list[Part] = []
    is_rest = False
    for part in message.parts:
        if isinstance(part, Text) and not isinstance(part, MarkedText):
            is_rest = is_rest or _starts_with(part, _REST_STARTS)
            part = _mark_unknown(part) if is_rest or _is_added(part) else part
        parts.append(part)
    return _replace_parts(message, tuple(parts))


def mark_client_texts(message: Message, *, after_result: bool = False) -> Message:
    """The same for a message of a client's list. Of several unknown texts none counts: one may be an attached file.

    After the result of a tool, a message that has nothing but added texts is not a request of the user.
    """
    copy = mark_added_texts(message)
    if after_result and _is_all_added(copy):
        return msgspec.structs.replace(copy, kind=CLIENT_NOTE)
    unknown = sum(map(_is_unknown, copy.parts)) if len(copy.parts) > 1 else 0
    return copy if unknown < 2 else _replace_parts(copy, tuple(map(_mark_unknown, copy.parts)))


def mark_texts_beside_results(message: Message, *, has_notices: bool) -> Message:
    """The same for texts that are in one message with results of tools. Images there belong to a result, as Gemini CLI
    sends them, which reads a picture.

    Nobody types there. With `has_notices`, as in Claude Code, a notice of the client can say otherwise: the user has
    interrupted it, and typed what follows, or sent a message meanwhile.
    """
    copy = mark_added_texts(message)
    if _is_all_added(copy, images=True):
        return msgspec.structs.replace(copy, kind=CLIENT_NOTE)
    parts = list(copy.parts)
    unknown = [number for number, part in enumerate(parts) if _is_unknown(part)]
    if has_notices:
        meanwhile = [number for number in unknown if _starts_with(parts[number], (_SENT_MEANWHILE,))]
        notices = [n for n, part in enumerate(parts) if isinstance(part, Text) and _INTERRUPTION.fullmatch(part.text)]
        resumed = [number for number in unknown if notices and number > notices[-1]]
        user_parts = {*meanwhile, *resumed} if len({*resumed} - {*meanwhile}) < 2 else {*meanwhile}
        unknown = [number for number in unknown if number not in user_parts]
    for number in unknown:
        parts[number] = _mark_unknown(parts[number])
    return _replace_parts(copy, tuple(parts))


def find_attached_file(text: str) -> int:
    """Where the files begin that a client attached, or -1.

    Inside one text that is a guess, since what a person pasted may look the same. It decides only what is shortened.
    """
    places = (0 if text.startswith(start) else text.find(f"\n{start}") for start in _FILE_STARTS)
    return min((place for place in places if place >= 0), default=-1)


def is_skill(text: str) -> bool:
    """Whether a text is the body of a skill, which a client sent when the skill was begun."""
    return text.startswith(_SKILL_START)


def _is_all_added(message: Message, *, images: bool = False) -> bool:
    """Whether a client added everything in a user message, and not because the user gave a command.

    `images`: those were not attached by the user.
    """
    if message.role != "user" or not message.parts:
        return False
    return not any(
        _is_unknown(part) or (isinstance(part, Image) and not images) or _starts_with(part, _REST_STARTS)
        for part in message.parts
    )


def _starts_with(part: Part, starts: tuple[str, ...]) -> bool:
    return isinstance(part, Text) and part.text[:_END_CHARS].lstrip().startswith(starts)


def _is_added(part: Text) -> bool:
    """Whether a client added this text: by its start, or because it is a block from its first to its last tag."""
    text = part.text
    if _starts_with(part, _STARTS) or (text.startswith("Ran `") and "`\n```\n" in text):  # the second one is of pi
        return True
    return _FIRST_TAG.match(text) is not None and _LAST_TAG.search(text[-_END_CHARS:]) is not None


def _is_unknown(part: Part) -> bool:
    return isinstance(part, Text) and not isinstance(part, MarkedText) and bool(part.text.strip())


def _mark_unknown(part: Part) -> Part:
    return MarkedText(part.text, part.opaque, typed=False) if isinstance(part, Text) and _is_unknown(part) else part


def _replace_parts(message: Message, parts: tuple[Part, ...]) -> Message:
    return msgspec.structs.replace(message, parts=parts) if parts != message.parts else message
