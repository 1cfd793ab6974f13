"""A compaction on demand may be told what its summary is to keep clear.

The words go into the instructions of the summary, on a line of their own, and nowhere else: the deterministic summary
keeps what it keeps. A text that was prepared ahead was asked for otherwise, so it does not serve here.
"""

from typing import Final

import msgspec

from tidegate.core.clip import clip_chars
from tidegate.core.outcome import SummaryRequest
from tidegate.session.drive import Summarise, SummariseAsync

FOCUS: Final = "Above all, keep clear what concerns this: "
MAX_FOCUS: Final = 500


def focused(summarise: Summarise | None, focus: str) -> Summarise | None:
    if summarise is None or not focus.strip():
        return summarise
    return lambda request: summarise(narrowed(request, focus))


def focused_async(summarise: SummariseAsync | None, focus: str) -> SummariseAsync | None:
    if summarise is None or not focus.strip():
        return summarise

    async def asked(request: SummaryRequest) -> str | None:
        return await summarise(narrowed(request, focus))

    return asked


def narrowed(request: SummaryRequest, focus: str) -> SummaryRequest:
    """On one line, whoever wrote it: it must not pass for more instructions than one."""
    words = clip_chars(" ".join(focus.split()), MAX_FOCUS, mode="head", notice="").text
    return msgspec.structs.replace(request, instructions=f"{request.instructions}\n{FOCUS}{words}")


def unfocused(words: str) -> str:
    """Instructions without that line: a summary may well repeat what it was to keep clear."""
    return "\n".join(line for line in words.split("\n") if not line.startswith(FOCUS))
