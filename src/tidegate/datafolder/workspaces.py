"""Where and with which model each session was last used, so that it is found again and continues as it was."""

from pathlib import Path

import msgspec

from tidegate.datafolder.contents import FolderContents
from tidegate.datafolder.session_use import SessionUse, find_session_use
from tidegate.disk.folder import session_file_key


def note_workspace(
    contents: FolderContents, session: str, workspace: Path, model: str | None = None, client: str = ""
) -> None:
    """Note that the session is used in this folder with this model and client. Writes nothing if that is known."""
    session_use = find_session_use(contents, session)
    others = tuple(each for each in session_use.clients if each != client)
    use = SessionUse(str(workspace.resolve()), model, (*others, client) if client else session_use.clients)
    if session_use != use:
        is_plain = (
            model is None and not use.clients
        ) or not use.folder.isprintable()  # a name that is not UTF-8 cannot be in JSON
        text = use.folder if is_plain else msgspec.json.encode(use).decode()
        contents.workspaces.update(session_file_key(session), lambda _: text)


def find_last_session(contents: FolderContents, workspace: Path, *, other_than: str = "") -> str:
    """Return the session that was used last in this folder, or "".

    Sessions of subagents do not count, because users do not talk with them. A time in the future comes from a wrong
    clock, so such a session is returned only if there is no other.
    """
    here, now, ahead = str(workspace.resolve()), contents.clock(), ""
    for info in contents.store.sessions():
        if ".task-" in info.name or info.name == other_than or find_workspace(contents, info.name) != here:
            continue
        if info.used <= now:
            return info.name
        ahead = ahead or info.name
    return ahead


def find_workspace(contents: FolderContents, session: str) -> str:
    """The folder that the session was last used in; empty if it is not known."""
    return find_session_use(contents, session).folder
