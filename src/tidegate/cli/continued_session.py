"""The session that `tidegate wrap --session` continues: whether it may be, and what its next client will get."""

from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Final

from tidegate.cli.wrapped_clients import WrappedClient
from tidegate.core.errors import BadInput
from tidegate.core.text.plural import format_count
from tidegate.core.text.terminal_text import clean_line

if TYPE_CHECKING:  # loaded when the command runs
    from tidegate.datafolder.data_folder import DataFolder
    from tidegate.gateway.settings import ContinuedSession

_FIRST_EVENTS: Final = 8
_LOOKED_INTO: Final = 20
"""Sessions of a client in which its model is looked for, the newest first."""


def find_continued_session(
    data: "DataFolder", client: WrappedClient, session: str, folder: Path, origin: str = ""
) -> "ContinuedSession":
    """What the gateway needs to know to let a client continue a session. BadInput if it is another project's.

    `origin` is the folder that the user named as the session's.
    """
    from tidegate.gateway.routing import clean_id
    from tidegate.gateway.settings import ContinuedSession

    name = clean_id(session)
    source = data.store.head(name)
    if source:
        _check_project(data, name, folder, origin)
    lines = _describe_repository(data, name, folder) if source else []
    return ContinuedSession(name, client.program, client.title, source, tuple(lines), client.sends_tools)


def _check_project(data: "DataFolder", name: str, folder: Path, origin: str) -> None:
    from tidegate.datafolder.workspaces import find_workspace

    used_in = find_workspace(data, name) or _find_imported_project(data, name)
    if used_in and used_in not in (str(folder.resolve()), str(Path(origin).resolve()) if origin else ""):
        line = clean_line(used_in)
        raise BadInput(
            f"The session {clean_line(name)} was last used in {line}, which is another project.",
            f"To continue it here, add --from {line}: the client's provider then gets its words.",
        )


def _find_imported_project(data: "DataFolder", name: str) -> str:
    """The folder that an imported session was recorded in; empty if the recording does not say it."""
    from tidegate.core.notes import ImportOrigin, read_note

    for event in islice(data.open_log(name).read(), _FIRST_EVENTS):
        if (origin := read_note(event.payload, ImportOrigin)) is not None:
            return origin.project if origin.project.startswith("/") else ""
    return ""


# --- the repository ---------------------------------------------------------------------------------------------------


def _describe_repository(data: "DataFolder", name: str, folder: Path) -> list[str]:
    from tidegate.datafolder.repository_state import describe_change, find_repository_state, read_repository_state

    before = find_repository_state(list(data.open_log(name).read()))
    now = read_repository_state(folder) if before is not None else None
    return describe_change(before, now) if before is not None and now is not None else []


def note_repository(data: "DataFolder", names: Sequence[str], folder: Path) -> None:
    """Note in the logs of these sessions how the repository of a folder is left."""
    from tidegate.core.errors import TidegateError
    from tidegate.datafolder.repository_state import read_repository_state

    state = read_repository_state(folder) if names else None
    if state is None:
        return
    for name in names:
        try:
            data.open_conversation(name).history.append_note(state)
        except TidegateError:  # the run is over, and its messages are stored
            continue


# --- who worked on it -------------------------------------------------------------------------------------------------


def find_own_session(data: "DataFolder", client: WrappedClient, session: str) -> str:
    """The client's own id of its conversation in a session; empty if it had none there."""
    from tidegate.core.notes import ClientNote, read_note
    from tidegate.gateway.routing import clean_id

    own_session = ""
    for event in data.open_log(clean_id(session)).read():
        note = read_note(event.payload, ClientNote)
        if note is not None:
            own_session = note.own_id if note.client == client.program and note.own_id else own_session
    return own_session


# --- a dry run --------------------------------------------------------------------------------------------------------


def describe_dry_run(
    data: "DataFolder", client: WrappedClient, continued: "ContinuedSession", window: int | None, *, returns: bool
) -> str:
    """What the first request would have in front of the user's message, and what that costs. Nothing is sent.

    `returns`: the client goes on with its own conversation, so it gets only what the others did since.
    """
    from tidegate.core.notes import ClientNote
    from tidegate.models.token_counters import create_counter
    from tidegate.session.continuation import ContinuedRun, choose_record_tokens, write_record
    from tidegate.session.shared_timeline import SharedTimeline

    run = ContinuedRun(
        ClientNote(client.program, client.title), continued.session, continued.source, data.mask, continued.lines
    )
    model = _find_last_model(data, client)
    log = data.open_log(continued.session)
    own = client.title if returns else ""
    after = SharedTimeline(log.read(), continued.session).find_last_of(own) if own else 0
    record = write_record(log.read, run, after, choose_record_tokens(window), create_counter(model), without=own)
    name = clean_line(continued.session)
    if record is None:
        why = f"{client.title} knows all of it" if after else f"it has no messages yet, {client.title} would begin it"
        return f"tidegate: nothing of the session {name} would be added: {why}. Nothing was sent.\n"
    note = record.note
    whole = f"{note.whole:,} of {format_count(note.messages, 'message')} whole"
    clients = clean_line(", ".join(note.clients))
    lines = [
        f"tidegate: {client.title} would continue the session {name}, worked on in {clients}",
        f"  sent           about {note.tokens:,} tokens before the first message: the user's words and rules, the work",
        f"                 ({whole}; recall reads back the rest)",
        f"  left out       thinking, signed data, images, reminders of the other client; {_count_masked(note.masked)}",
        f"  goes to        the provider that {client.title} is set up for",
        f"  cost           {_describe_cost(model, note.tokens)}",
        *(f"  repository     {line}" for line in continued.lines),
        f"To read it: tidegate export {name} --handoff. Nothing was sent.",
    ]
    return "\n".join(lines) + "\n"


def _count_masked(count: int) -> str:
    return f"{format_count(count, 'secret')} masked" if count else "no secret was found to mask"


def _describe_cost(model: str, tokens: int) -> str:
    from tidegate.models.catalog import find_model

    info = find_model(model) if model else None
    if info is None or not info.prices:
        return f"at $1 per million input tokens ${tokens / 1e6:.4f}, once; then it is in the provider's cache"
    rate = info.prices[0].input
    return (
        f"about ${rate * tokens / 1e6:.4f} once (${rate:g} per million input tokens of {clean_line(model)}); then it is"
        " in the provider's cache"
    )


def _find_last_model(data: "DataFolder", client: WrappedClient) -> str:
    """The model that the client used last, in a session that it named; empty if there is none."""
    from tidegate.core.notes import ModelNote, is_note
    from tidegate.session.request import parse_model_note

    names = [info.name for info in data.store.sessions() if info.name.startswith(f"{client.program}-")]
    for name in names[:_LOOKED_INTO]:
        for event in islice(data.open_log(name).read(), _FIRST_EVENTS):
            if is_note(event.payload, ModelNote):
                return parse_model_note(event.payload.text).model
    return ""
