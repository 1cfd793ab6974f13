"""An MCP server over a data folder: recall, search, notes and status for any MCP client.

It opens logs to read them and never holds a session open, so an agent or `tidegate chat` may use the folder at the same
time. Every answer is bounded and is a text, also if the arguments make no sense. Secrets are masked.
"""

import asyncio
import difflib
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, Any, NamedTuple
from urllib.parse import quote, unquote

import uvicorn
from mcp.server.context import ServerRequestContext
from mcp.server.mcpserver import MCPServer
from mcp.shared.exceptions import MCPError
from mcp_types import INVALID_PARAMS, ListResourcesResult, PaginatedRequestParams, Resource, ToolAnnotations
from pydantic import Field

from tidegate.core.errors import BadInput, TidegateError
from tidegate.core.text.clip import clip_chars
from tidegate.datafolder.data_folder import DataFolder
from tidegate.datafolder.earlier_sessions import ALL_SESSIONS, NOT_ALLOWED, EarlierSessions
from tidegate.datafolder.forget.files import list_session_notes, select_session_entries
from tidegate.datafolder.time_format import format_time
from tidegate.integrations.threads import RECALL_CHARS, WHOLE_RECALL_CHARS
from tidegate.memory.notes import Notes
from tidegate.memory.passages import SourceKind
from tidegate.memory.search import SearchHit
from tidegate.session.recall import recall_text
from tidegate.store.store import SessionInfo, list_page

_MAX_CHARS = 60_000
_MAX_WORDS = 2_000
_MAX_HITS = 50
_MAX_LISTED = 100
_INSTRUCTIONS = (
    "The memory of past and running conversations, kept by tidegate. If the conversation shows a note such as"
    " [cleared: ...; recall m12], or a list with '- recall m2..m97', call the tool `recall` of this server with that id"
    " or range to read what is not shown. Clients may list the tool under a longer name that ends with recall."
)
_RECALL = (
    "Read messages of a conversation that are not shown any more. Notes in the conversation such as"
    " '[cleared: result of read, 900 tokens; recall m12]' and '- recall m2..m97' name what can be read: pass the id"
    " (m12), the range (m2..m97), the path of a file, or words to look for. Answers are bounded; a long one ends with a"
    " line that says how to go on: pass it back as `what`."
)
_SEARCH = (
    "Search the notes for words, and the earlier conversations about this project if the user allows it; a server for"
    " one conversation searches that one. A hit names the note, or a session and an id for `recall`."
)
_NOTES = "Read the notes that agents keep across conversations: without a name the list of notes, else that note."
_SESSION_NOTES = "Read the notes of this conversation: without a name those of all days, else those of one day."
_WRITE = "Write down something that later conversations should know. Without a name it goes into the note of the day."
_STATUS = (
    "List the kept conversations, the latest first; with a session, its length and what is in its view now. A long list"
    " ends with a cursor: pass it back to go on."
)
_SESSION = Field(
    description="the name of the conversation; may be left out if the server serves only one. * searches the earlier"
    " conversations about this project, if the user allows it"
)


class _SessionServer(MCPServer[Any]):
    """Lists the sessions as resources, as they are now."""

    def __init__(self, desk: "RecallDesk") -> None:
        super().__init__("tidegate", instructions=_INSTRUCTIONS, version=version("tidegate"), log_level="ERROR")
        self._desk = desk

    async def _handle_list_resources(
        self, ctx: ServerRequestContext[Any], params: PaginatedRequestParams | None
    ) -> ListResourcesResult:
        # The SDK's own `list_resources` knows no cursor.
        try:
            page = await asyncio.to_thread(self._desk.list_page, (params and params.cursor) or "")
        except BadInput as bad:
            raise MCPError(INVALID_PARAMS, str(bad)) from None
        resources = [
            Resource(uri=f"tidegate://sessions/{quote(info.name, safe='')}", name=info.name, mime_type="text/plain")
            for info in page.sessions
        ]
        return ListResourcesResult(resources=resources, next_cursor=page.next_cursor or None)


class _Page(NamedTuple):
    """Some sessions, the last used first. `next_cursor` asks for those after them; empty after the last one."""

    sessions: list[SessionInfo]
    total: int
    next_cursor: str


class RecallDesk:
    """The answers of the server's tools. With `session` it serves only that session; its name may then be left out.

    `project` is the folder whose earlier sessions may be searched together; None if the user does not allow it.
    """

    def __init__(self, data: DataFolder, session: str = "", project: Path | None = None) -> None:
        self._data = data
        self._session = session
        self._earlier = EarlierSessions(data, project) if project is not None and not session else None

    def list_page(self, cursor: str) -> _Page:
        if cursor and not (cursor.isascii() and cursor.isdecimal() and len(cursor) < 10):
            raise BadInput(f"This is not a cursor: {clip_chars(cursor, 80).text!r}.", "Begin without one.")
        first = int(cursor or 0)
        if self._session:
            own_session = [info for info in self._data.store.sessions() if info.name == self._session][first:]
            return _Page(own_session, len(own_session), "")
        sessions, total = list_page(self._data.store, first, _MAX_LISTED)
        last = first + len(sessions)
        return _Page(sessions, total, str(last) if sessions and last < total else "")

    def recall(self, what: str, session: str, offset: int, max_chars: int) -> str:
        if session == ALL_SESSIONS:
            return self._search_earlier(what[:_MAX_WORDS], offset, max_chars)
        name = self._choose_session(session)
        return recall_text(
            self._data.open_log(name),
            what[:_MAX_WORDS],
            max_chars=min(max_chars, _MAX_CHARS) if max_chars > 0 else RECALL_CHARS,
            offset=max(offset, 0),
            whole_chars=0 if max_chars > 0 else WHOLE_RECALL_CHARS,
            index=self._data.recall_index(name),
        ).text

    def _search_earlier(self, words: str, offset: int, max_chars: int) -> str:
        if self._earlier is None:
            return NOT_ALLOWED
        most = min(max_chars, _MAX_CHARS) if max_chars > 0 else RECALL_CHARS
        return self._earlier.recall(words, ALL_SESSIONS, max_chars=most, offset=max(offset, 0))

    def search(self, words: str, limit: int) -> str:
        words, most = words[:_MAX_WORDS], min(max(limit, 1), _MAX_HITS)
        kind: SourceKind = "session" if self._session else "note"
        hits = self._data.open_search().search(words, most, kind=kind, name=self._session)
        lines = [*map(_format_hit, hits)] or ["Nothing was found. Try other or fewer words."]
        if not self._session:
            lines.append(self._search_earlier(words, 0, 0))
        return "\n".join(lines)

    def read_notes(self, name: str, offset: int) -> str:
        notes = self._data.notes
        if self._session:
            days = [name] if name else list_session_notes(notes, self._session)
            text = "\n\n".join(filter(None, (_format_entries(notes, day, self._session) for day in days)))
            return _cut_page(text or "This conversation has no such notes.", offset)
        text = notes.read(name) if name else notes.render_index() or "There are no notes yet."
        return _cut_page(text, offset)

    def write_note(self, text: str, name: str, about: str) -> str:
        notes = self._data.notes
        if name and self._session:
            raise BadInput("Only notes of the day can be written here.", "Leave the name out.")
        if name:
            notes.write(name, text, about=about or text.strip().split("\n", 1)[0])
            return f"Written to {name}."
        return f"Noted in {notes.add_entry(text, source=self._session, title=about)}."

    def describe_status(self, session: str, cursor: str) -> str:
        if session or self._session:
            name = self._choose_session(session)
            view = self._data.open_conversation(name).view
            view_line = f"{len(view.items)} messages in the view, about {view.tokens:,} tokens"
            return f"{name}: {view.head:,} records in the log, {view_line}."
        page = self.list_page(cursor)
        lines = [f"{info.name}: {info.head:,} records, last used {format_time(info.used)}" for info in page.sessions]
        more = [f"{page.total:,} in all; go on with the cursor {page.next_cursor}"] if page.next_cursor else []
        none = "There are no more." if cursor else "No sessions are kept here yet."
        return "\n".join([*lines, *more]) or none

    def read_session(self, name: str) -> str:
        """The beginning of a session, as a resource."""
        log = self._data.open_log(self._choose_session(name))
        return recall_text(log, f"m1..m{max(log.head, 1)}", max_chars=_MAX_CHARS).text

    def _choose_session(self, choice: str) -> str:
        name = choice or self._session
        if name and (not self._session or name == self._session) and self._data.store.head(name):
            return name
        names = [info.name for info in self._data.store.sessions() if not self._session or info.name == self._session]
        similar = difflib.get_close_matches(name[:80], names, n=1) if name else []
        hint = f" Did you mean {similar[0]!r}?" if similar else " The tool `status` lists the sessions."
        what = f"There is no session {clip_chars(name, 80).text!r}." if name else "Name a session."
        raise TidegateError(what, hint.strip())

    def answer(self, act: Callable[[], str]) -> str:
        """The text of an answer, without secrets. An error becomes a sentence with what to do."""
        try:
            return self._data.mask(act())
        except TidegateError as error:
            return self._data.mask(f"{error.args[0]} {error.remedy}")
        except OSError as error:
            return f"The data folder could not be read: {error.strerror}."


def _format_hit(hit: SearchHit) -> str:
    place = f"note {hit.name}, line {hit.place}" if hit.kind == "note" else f"session {hit.name}, m{hit.place}"
    return f"{place}: {hit.snippet}"


def _format_entries(notes: Notes, day: str, session: str) -> str:
    """The entries of a session in the note of a day."""
    if day not in notes.daily_names():
        return ""
    entries = select_session_entries(notes, day, session)
    return "\n\n".join(f"## {day.removesuffix('.md')} {each.time} · {each.title}\n\n{each.text}" for each in entries)


def _cut_page(text: str, offset: int) -> str:
    start = max(offset, 0)
    page = text[start : start + RECALL_CHARS]
    left = len(text) - start - len(page)
    return f"{page}\n[{left:,} characters left; go on with offset {start + len(page)}]" if left > 0 else page


def create_mcp_server(
    data: DataFolder, session: str = "", *, allow_writes: bool = False, project: Path | None = None
) -> MCPServer[Any]:
    """The server. It reads only, unless `allow_writes` adds the tool that writes notes.

    With `project`, `recall` may search the earlier sessions of this folder together.
    """
    desk = RecallDesk(data, session, project)
    server = _SessionServer(desk)
    reads = ToolAnnotations(read_only_hint=True, open_world_hint=False)

    async def answer(act: Callable[[], str]) -> str:
        return await asyncio.to_thread(desk.answer, act)

    @server.tool(description=_RECALL, annotations=reads, structured_output=False)
    async def recall(
        what: Annotated[str, Field(description="m12, m12..m40, src/a.py, or words")],
        session: Annotated[str, _SESSION] = "",
        offset: int = 0,
        max_chars: Annotated[int, Field(description="0: as fits")] = 0,
    ) -> str:
        return await answer(lambda: desk.recall(what, session, offset, max_chars))

    @server.tool(description=_SEARCH, annotations=reads, structured_output=False)
    async def search(words: str, limit: int = 10) -> str:
        return await answer(lambda: desk.search(words, limit))

    @server.tool(description=_SESSION_NOTES if session else _NOTES, annotations=reads, structured_output=False)
    async def notes(name: str = "", offset: int = 0) -> str:
        return await answer(lambda: desk.read_notes(name, offset))

    @server.tool(description=_STATUS, annotations=reads, structured_output=False)
    async def status(session: Annotated[str, _SESSION] = "", cursor: str = "") -> str:
        return await answer(lambda: desk.describe_status(session, cursor))

    @server.resource("tidegate://sessions/{name}", mime_type="text/plain", description="the beginning of a session")
    async def read_session(name: str) -> str:
        return await answer(lambda: desk.read_session(unquote(name)))

    if allow_writes:

        @server.tool(description=_WRITE, annotations=ToolAnnotations(destructive_hint=False), structured_output=False)
        async def write_note(text: str, name: str = "", about: str = "") -> str:
            return await answer(lambda: desk.write_note(text, name, about))

    return server


def run_mcp_server(server: MCPServer[Any], port: int | None) -> None:
    """Serve over standard input and output, or over streamable HTTP on 127.0.0.1."""
    if port is None:
        asyncio.run(server.run_stdio_async())
        return
    app = server.streamable_http_app(host="127.0.0.1")
    uvicorn.run(app, host="127.0.0.1", port=port, log_level="warning")
