"""Where and with which model each session was last used, so that it is found again and continues as it was."""

from pathlib import Path

import msgspec

from tidegate.datafolder.contents import FolderContents
from tidegate.disk.folder import session_file_key


class SessionUse(msgspec.Struct, frozen=True):
    """The working folder, and the model as PROVIDER/MODEL.

    "" if nobody chose the model: without a configuration, the embedded one answers. None if it is only in the log.
    """

    folder: str = ""
    model: str | None = None


def note_workspace(contents: FolderContents, session: str, workspace: Path, model: str | None = None) -> None:
    """Note that the session is used in this folder with this model. Writes nothing if that is known."""
    use = SessionUse(str(workspace.resolve()), model)
    if find_session_use(contents, session) != use:
        is_plain = model is None or not use.folder.isprintable()  # a name that is not UTF-8 cannot be in JSON
        text = use.folder if is_plain else msgspec.json.encode(use).decode()
        contents.workspaces.update(session_file_key(session), lambda _: text)


def find_session_use(contents: FolderContents, session: str) -> SessionUse:
    """How the session was last used; empty if it is not known."""
    text = contents.workspaces.read(session_file_key(session)) or ""
    if text.startswith("{"):
        try:
            return msgspec.json.decode(text, type=SessionUse)
        except msgspec.DecodeError:
            return SessionUse()
    return SessionUse(text)  # the folder alone, as `tidegate wrap` and earlier versions write it


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
