"""What the pickers offer: the kept sessions, the models that can be asked."""

import asyncio
import time
from itertools import islice
from typing import Final

from tidegate.apps.chat.backstage import Backstage
from tidegate.apps.chat.context_lines import ago
from tidegate.apps.chat.picker import Choice, Source
from tidegate.apps.terminal import Shown
from tidegate.core.errors import TidegateError
from tidegate.core.events import Said
from tidegate.core.messages import is_request, text_of
from tidegate.keep.data import DataFolder

NEW: Final = "\n"
"""The value of the choice to begin a new session: no session is called that."""
LOOKED: Final = 12
"""Events at the beginning of a log among which its first words are."""
MOST_READ: Final = 300
LEAST_WORDS: Final = 3


def sessions(data: DataFolder, shown: Shown, current: str) -> Source:
    """By name and by what was first said; where that finds nothing, by all that was ever said in them."""
    known: list[Choice] = []

    async def found(words: str) -> list[Choice]:
        if not known:
            known.extend(await asyncio.to_thread(_kept, data, shown, current))
        asked = words.casefold().split()
        fit = [each for each in known if all(word in f"{each.name} {each.about}".casefold() for word in asked)]
        if not words:
            return [Choice(NEW, "+ a new session"), *fit]
        if len(words) >= LEAST_WORDS:
            inside = await asyncio.to_thread(_said, data, shown, words)
            fit += [each for each in inside if each.value not in {other.value for other in fit}]
        return fit

    return found


def _kept(data: DataFolder, shown: Shown, current: str) -> list[Choice]:
    found: list[Choice] = []
    now = data.clock()
    for info in data.store.sessions()[:MOST_READ]:
        if ".task-" in info.name:
            continue
        here = " (here)" if info.name == current else ""
        about = f"{ago(now - info.used)} ago{here}  {shown.line(_first(data, info.name))[:120]}"
        found.append(Choice(info.name, shown.line(info.name), about))
    return found


def _first(data: DataFolder, name: str) -> str:
    try:
        for event in islice(data.log(name).read(), LOOKED):
            if isinstance(event.what, Said) and is_request(event.what.message):
                return text_of(event.what.message)[:4000]
    except TidegateError as bad:
        return str(bad)
    return ""


def _said(data: DataFolder, shown: Shown, words: str) -> list[Choice]:
    try:
        hits = data.search().search(words, 40, kind="session")
    except TidegateError:
        return []
    found: dict[str, Choice] = {}
    for hit in hits:
        if ".task-" not in hit.name:
            found.setdefault(hit.name, Choice(hit.name, shown.line(hit.name), shown.line(hit.snippet)[:160]))
    return list(found.values())


def models(backstage: Backstage, shown: Shown) -> Source:
    """What the command /model completes."""
    known: list[str] = []

    async def found(words: str) -> list[Choice]:
        if not known:
            lines = await asyncio.wrap_future(backstage.complete("/model "))
            known.extend(line.removeprefix("/model ") for line in lines)
        asked = words.casefold().split()
        return [Choice(each, shown.line(each)) for each in known if all(word in each.casefold() for word in asked)]

    return found


def new_name(current: str) -> str:
    """Named like the one before, with the time: names sort, and two of one second differ."""
    stem = current.rsplit("-", 3)[0] if current.count("-") >= 3 else "chat"
    return f"{stem}-{time.strftime('%Y%m%d-%H%M%S')}-{time.time_ns() % 1_000_000:06d}"
