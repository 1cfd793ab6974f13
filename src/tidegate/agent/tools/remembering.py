"""Tools for what is not in the view: notes, the log, skills, and room."""

import asyncio
from typing import Annotated

import msgspec
from msgspec import Meta

from tidegate.agent.skills import Skills
from tidegate.agent.tools.tool import Built, Context, Data, Failed, ToolResult
from tidegate.core.events import Said
from tidegate.core.messages import calls_of, result_of
from tidegate.memory.search import Hit
from tidegate.session.recall import Find, recall_text
from tidegate.store.log import Log

RECALLED = 8_000
"""Characters of the log in one result, unless more is asked for."""
MOST_RECALLED = 60_000
HITS = 10
_PAGES = 3
_SEARCHES = frozenset({"recall", "memory_search"})


class Remember(msgspec.Struct):
    text: str
    note: Annotated[str, Meta(description="a .md file of its own; without, the day's note")] = ""
    about: Annotated[str, Meta(description="its line in the index, or the entry's title")] = ""


class Look(msgspec.Struct):
    words: str = ""
    note: Annotated[str, Meta(description="show this note whole")] = ""


class Recall(msgspec.Struct):
    what: Annotated[str, Meta(description="m12, m12..m40, or words")]
    offset: Annotated[int, Meta(ge=0)] = 0
    max_chars: Annotated[int, Meta(ge=1, le=MOST_RECALLED)] = RECALLED


class Compact(msgspec.Struct):
    focus: Annotated[str, Meta(description="what must stay clear")] = ""


class ReadSkill(msgspec.Struct):
    name: Annotated[str, Meta(description="without: the list")] = ""


def _data(context: Context) -> Data:
    if context.data is None:
        raise Failed("This session has no data folder, so there is no memory. Keep what matters in your answer.")
    return context.data


async def _remember(asked: Remember, context: Context) -> ToolResult:
    notes = _data(context).notes
    if asked.note:
        about = asked.about or asked.text.strip().split("\n", 1)[0]
        written = await asyncio.to_thread(notes.write, asked.note, asked.text, about=about)
        return ToolResult(f"{'Wrote' if written else 'Unchanged:'} {asked.note}.")
    day = await asyncio.to_thread(notes.add, asked.text, source=context.session_name, title=asked.about)
    return ToolResult(f"Noted in {day}.")


async def _look(asked: Look, context: Context) -> ToolResult:
    data = _data(context)
    if asked.note:
        return ToolResult(await asyncio.to_thread(data.notes.read, asked.note))
    if not asked.words.strip():
        return ToolResult(data.notes.index_text() or "[the memory is empty]")
    hits = await asyncio.to_thread(lambda: data.search().search(asked.words, 3 * HITS))
    own = await asyncio.to_thread(_searches, context.session.log)
    others = [hit for hit in hits if hit.kind == "note" or hit.name != context.session_name or hit.place not in own]
    return ToolResult("\n".join(map(_hit, others[:HITS])) or "[nothing found; try other or fewer words]")


def _hit(hit: Hit) -> str:
    place = f"{hit.name}:{hit.place}" if hit.kind == "note" else f"session {hit.name} m{hit.place}"
    return f"{place}  {hit.snippet}"


async def _recall(asked: Recall, context: Context) -> ToolResult:
    log = context.session.log
    found = await asyncio.to_thread(
        recall_text, log, asked.what, max_chars=asked.max_chars, offset=asked.offset, find=_others(log)
    )
    return ToolResult(found.text)


def _others(log: Log) -> Find:
    """Words are looked for in what was said, not in the searches for them, which have them all."""

    def find(words: str, most: int) -> list[int]:
        own = _searches(log)
        found: list[int] = []
        offset = 0
        for _ in range(_PAGES):
            page = recall_text(log, words, max_chars=MOST_RECALLED, offset=offset)
            found += [seq for seq in (int(ident[1:]) for ident in page.ids) if seq not in own]
            offset = page.offset
            if len(found) >= most or not page.more:
                break
        return found[:most]

    return find


def _searches(log: Log) -> set[int]:
    """The messages that only searched, and the results of that."""
    seqs: set[int] = set()
    ids: set[str] = set()
    for event in log.read():
        message = event.what.message if isinstance(event.what, Said) else None
        if message is None:
            continue
        calls, result = calls_of(message), result_of(message)
        if calls and all(call.name in _SEARCHES for call in calls):
            ids.update(call.id for call in calls)
            seqs.add(event.seq)
        elif result is not None and result.call_id in ids:
            seqs.add(event.seq)
    return seqs


async def _compact(asked: Compact, context: Context) -> ToolResult:
    context.compaction = asked.focus.strip()
    return ToolResult("The conversation is compacted before the next step. Nothing is lost: recall finds it.")


def skill_tool(skills: Skills) -> Built[ReadSkill]:
    async def act(asked: ReadSkill, context: Context) -> ToolResult:
        if asked.name:
            return ToolResult(await asyncio.to_thread(skills.read, asked.name))
        lines = [f"{skill.name}: {skill.description}" for skill in skills.found.values()]
        return ToolResult("\n".join(lines) or "[there are no skills]")

    return Built("skills", "Read a skill before doing what it is for.", ReadSkill, act)


REMEMBER = Built("memory_write", "Keep something for later sessions.", Remember, _remember)
LOOK = Built("memory_search", "Search notes and earlier sessions.", Look, _look)
RECALL = Built("recall", "Read back what left this conversation.", Recall, _recall)
COMPACT = Built("compact", "Make room now, at a good moment.", Compact, _compact)
