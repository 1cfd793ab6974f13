"""The tools for notes, the log, skills and compaction."""

import asyncio
from functools import partial
from typing import Annotated

import msgspec
from msgspec import Meta

from tidegate.agent.skills import Skills
from tidegate.agent.tools.tool import FunctionTool, ToolContext, ToolData, ToolFailed, ToolResult
from tidegate.datafolder.earlier_sessions import NOT_ALLOWED, SESSION_ARGUMENT

_DEFAULT_RECALL_CHARS = 8_000
"""Characters of the log in one result, by default. One message may have more: a quarter of the room."""
_MAX_RECALL_CHARS = 60_000
_MAX_HITS = 10


class MemoryWriteArguments(msgspec.Struct):
    text: str
    note: Annotated[str, Meta(description="a .md file of its own; without, the day's note")] = ""
    about: Annotated[str, Meta(description="its line in the index, or the entry's title")] = ""


class MemorySearchArguments(msgspec.Struct):
    words: str = ""
    note: Annotated[str, Meta(description="show this note whole")] = ""


class RecallArguments(msgspec.Struct):
    what: Annotated[str, Meta(description="m12, m12..m40, src/a.py, or words")]
    offset: Annotated[int, Meta(ge=0)] = 0
    max_chars: Annotated[int, Meta(ge=0, le=_MAX_RECALL_CHARS, description="without: as fits")] = 0


class EarlierRecallArguments(RecallArguments):
    session: Annotated[str, Meta(description=SESSION_ARGUMENT)] = ""


class CompactArguments(msgspec.Struct):
    focus: Annotated[str, Meta(description="what must stay clear")] = ""


class SkillsArguments(msgspec.Struct):
    name: Annotated[str, Meta(description="without: the list")] = ""


def _require_data(context: ToolContext) -> ToolData:
    if context.data is None:
        raise ToolFailed("This session has no data folder, so there is no memory. Keep what matters in your answer.")
    return context.data


async def _run_memory_write(arguments: MemoryWriteArguments, context: ToolContext) -> ToolResult:
    notes = _require_data(context).notes
    if arguments.note:
        about = arguments.about or arguments.text.strip().split("\n", 1)[0]
        is_new = await asyncio.to_thread(notes.write, arguments.note, arguments.text, about=about)
        return ToolResult(f"{'Wrote' if is_new else 'Unchanged:'} {arguments.note}.")
    day = await asyncio.to_thread(notes.add_entry, arguments.text, source=context.session_name, title=arguments.about)
    return ToolResult(f"Noted in {day}.")


async def _run_memory_search(arguments: MemorySearchArguments, context: ToolContext) -> ToolResult:
    data = _require_data(context)
    if arguments.note:
        return ToolResult(await asyncio.to_thread(data.notes.read, arguments.note))
    if not arguments.words.strip():
        return ToolResult(data.notes.render_index() or "[the memory is empty]")
    search = partial(data.open_search().search, arguments.words, _MAX_HITS, kind="note")
    hits = await asyncio.to_thread(search)
    lines = [f"{hit.name}:{hit.place}  {hit.snippet}" for hit in hits]
    return ToolResult("\n".join(lines) or "[nothing found; try other or fewer words]")


async def _run_recall(arguments: RecallArguments, context: ToolContext) -> ToolResult:
    session = context.session
    excerpt = await asyncio.to_thread(
        session.history.search,
        arguments.what,
        max_chars=arguments.max_chars or _DEFAULT_RECALL_CHARS,
        offset=arguments.offset,
        whole_chars=0 if arguments.max_chars else session.whole_recall_chars,
    )
    return ToolResult(excerpt.text)


async def _run_earlier_recall(arguments: EarlierRecallArguments, context: ToolContext) -> ToolResult:
    if not arguments.session or arguments.session == context.session_name:
        return await _run_recall(arguments, context)
    if context.earlier_sessions is None:
        raise ToolFailed(NOT_ALLOWED)
    recall = partial(
        context.earlier_sessions.recall,
        arguments.what,
        arguments.session,
        current=context.session_name,
        max_chars=arguments.max_chars or _DEFAULT_RECALL_CHARS,
        offset=arguments.offset,
    )
    return ToolResult(await asyncio.to_thread(recall))


async def _run_compact(arguments: CompactArguments, context: ToolContext) -> ToolResult:
    context.requested_compaction = arguments.focus.strip()
    return ToolResult("The conversation is compacted before the next step. Nothing is lost: recall finds it.")


def create_skills_tool(skills: Skills) -> FunctionTool[SkillsArguments]:
    async def act(arguments: SkillsArguments, context: ToolContext) -> ToolResult:
        if arguments.name:
            return ToolResult(await asyncio.to_thread(skills.read_body, arguments.name))
        lines = [f"{skill.name}: {skill.description}" for skill in skills.by_name.values()]
        return ToolResult("\n".join(lines) or "[there are no skills]")

    return FunctionTool("skills", "Read a skill before doing what it is for.", SkillsArguments, act)


MEMORY_WRITE_TOOL = FunctionTool(
    "memory_write", "Keep something for later sessions.", MemoryWriteArguments, _run_memory_write
)
MEMORY_SEARCH_TOOL = FunctionTool(
    "memory_search", "Search the notes of all sessions.", MemorySearchArguments, _run_memory_search
)
RECALL_TOOL = FunctionTool("recall", "Read back what left this conversation.", RecallArguments, _run_recall)
EARLIER_RECALL_TOOL = FunctionTool(
    "recall",
    "Read back what left this conversation, or what earlier conversations about this project said.",
    EarlierRecallArguments,
    _run_earlier_recall,
)
"""`recall`, if the user allows it to read the earlier sessions of the project."""
COMPACT_TOOL = FunctionTool("compact", "Make room now, at a good moment.", CompactArguments, _run_compact)
