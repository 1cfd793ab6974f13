"""`sessions`: the stored sessions, as a table. It loads quickly: it is typed often."""

from argparse import Namespace
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from tidegate.commands.operations.operation import Argument, Operation, OperationResult, SessionPlace, parse_count

if TYPE_CHECKING:  # loaded when it runs
    from tidegate.datafolder.data_folder import DataFolder
    from tidegate.datafolder.session_logs import SessionLogs
    from tidegate.store.store import SessionInfo

_PAGE: Final = 50
_MAX_TITLE_CHARS: Final = 60
_MIN_TITLE_CHARS: Final = 20
_HEADS: Final = ("session", "records", "on disk", "last used", "begun")
_LAYOUTS: Final[tuple[tuple[int, ...], ...]] = ((0, 1, 2, 3, 4), (0, 3), (0,))
"""The columns that are shown, by their numbers: the first that leaves room for a title is used."""
_CHAT_LAYOUT: Final = (0, 1, 3)
_ABOUT: Final = """\
List the stored sessions with their length, size, last use and title (the first request), the latest first: 50 at a
time, or as JSON all of them.
"""


def _sessions(place: SessionPlace, values: Namespace) -> OperationResult:
    import msgspec

    from tidegate.core.text.plural import format_count
    from tidegate.datafolder.location import locate_user_data
    from tidegate.datafolder.session_names import read_session_title
    from tidegate.datafolder.session_use import find_session_use

    logs = place.logs()
    if logs is None:
        text = f"No sessions are stored yet in {locate_user_data()}. To start one: tidegate chat"
        return OperationResult(text, value=[])
    words, first = " ".join(values.words), (values.page - 1) * _PAGE
    infos, total = _list_infos(logs, words.casefold(), first, is_whole=values.json and values.page == 1)
    in_use = {info.name: logs.locks.is_in_use(info.name) for info in infos}
    titles = {info.name: read_session_title(logs, info.name) for info in infos}
    clients = {info.name: find_session_use(logs, info.name).clients for info in infos}
    rows = [
        {
            **msgspec.to_builtins(info),
            "in_use": in_use[info.name],
            "title": titles[info.name],
            "clients": clients[info.name],
        }
        for info in infos
    ]
    if not infos:
        none = "No session has such a name." if words else "No sessions are stored yet."
        last = -(-total // _PAGE)
        return OperationResult(
            f"There is no page {values.page}; the last one is {last}." if total else none, value=rows
        )
    marks = {name: _mark_use(place, name, clients[name], in_use[name]) for name in titles}
    lines = _format_table(infos, titles, marks, place)
    if total > len(infos):
        command = " ".join(filter(None, ("/sessions" if place.is_chat else "tidegate sessions", words)))
        more = f" More: {command} --page {values.page + 1}" if first + len(infos) < total else ""
        lines.append(f"{first + 1:,} to {first + len(infos):,} of {format_count(total, 'session')}.{more}")
    return OperationResult("\n".join(lines), value=rows, remark=_describe_unknown_times(infos))


def _list_infos(
    logs: "DataFolder | SessionLogs", words: str, first: int, *, is_whole: bool
) -> tuple[Sequence["SessionInfo"], int]:
    """The sessions of a page, or all, and how many there are."""
    from tidegate.store.store import list_page

    if not words and not is_whole:
        return list_page(logs.store, first, _PAGE)
    infos = [info for info in logs.store.sessions() if words in info.name.casefold()]
    return infos if is_whole else infos[first : first + _PAGE], len(infos)


def _mark_use(place: SessionPlace, name: str, clients: Sequence[str], is_open: bool) -> str:
    """Several clients of a session, and whether it is open now."""
    names = f"  ({', '.join(clients)})" if len(clients) > 1 else ""
    if place.is_chat and name == place.name:
        return f"{names}  (this one)"
    return names + ("  (open)" if is_open else "")


def _format_table(
    infos: Sequence["SessionInfo"], titles: dict[str, str], marks: dict[str, str], place: SessionPlace
) -> list[str]:
    """Return all columns, or for a narrow terminal those that tell the sessions apart. Titles are cut to fit."""
    from tidegate.core.text.plural import format_byte_size
    from tidegate.core.text.terminal_text import format_visible_name
    from tidegate.datafolder.time_format import format_time

    rows = [
        (
            format_visible_name(info.name),
            f"{info.head:,}",
            format_byte_size(info.size),
            format_time(info.used),
            format_time(info.created),
        )
        for info in infos
    ]
    widths = [max(len(cell) for cell in column) for column in zip(_HEADS, *rows, strict=True)]
    columns, room = _LAYOUTS[0], _MAX_TITLE_CHARS
    if place.is_chat:  # it wraps long lines itself
        columns, room = _CHAT_LAYOUT, _MAX_TITLE_CHARS + max(map(len, marks.values()))
    elif place.width is not None:
        rooms = {layout: place.width - sum(widths[each] + 2 for each in layout) for layout in _LAYOUTS}
        columns = next((layout for layout in _LAYOUTS if rooms[layout] >= _MIN_TITLE_CHARS), _LAYOUTS[-1])
        room = max(0, rooms[columns])

    def format_row(cells: Sequence[str], title: str) -> str:
        aligned = [f"{cells[each]:{'>' if each in (1, 2) else '<'}{widths[each]}}" for each in columns]
        return "  ".join([*aligned, title]).rstrip()

    lines = [format_row(_HEADS, "title"[:room])]
    for cells, info in zip(rows, infos, strict=True):
        title, mark = titles[info.name], marks[info.name]
        most = max(0, room - len(mark))
        cut = title if len(title) <= most else title[: most - 1] + "…" if most else ""
        lines.append(format_row(cells, f"{cut}{mark[:room]}"))
    return lines


def _describe_unknown_times(infos: Sequence["SessionInfo"]) -> str:
    from tidegate.datafolder.time_format import UNKNOWN_TIME, format_time

    if any(format_time(each) == UNKNOWN_TIME or not each for info in infos for each in (info.used, info.created)):
        return "Some times are not known. `tidegate doctor` looks through the sessions and says what is wrong."
    return ""


SESSIONS: Final = Operation(
    "sessions",
    "list the stored sessions",
    _ABOUT,
    ("", "build", "--page 2", "--json"),
    _sessions,
    (
        Argument("words", "WORDS", "only sessions with this in their name", repeat="*"),
        Argument("--page", "N", f"the Nth {_PAGE} sessions", 1, parse_count),
        Argument("--json", help="a list of objects instead of a table", default=False),
    ),
    scope="data",
    notes="To delete a session: tidegate forget SESSION. To delete all of them, delete the data folder.",
)
OPERATIONS: Final = (SESSIONS,)
