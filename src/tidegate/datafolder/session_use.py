"""How a session was last used, as a small file beside its log says it. A list of sessions reads it: it loads fast."""

from typing import Protocol

import msgspec

from tidegate.disk.folder import TextFolder, session_file_key


class SessionUse(msgspec.Struct, frozen=True):
    """The working folder, and the model as PROVIDER/MODEL.

    "" if nobody chose the model: without a configuration, the embedded one answers. None if it is only in the log.
    `clients` are those that were started for it with `tidegate wrap`, each once, the last one last.
    """

    folder: str = ""
    model: str | None = None
    clients: tuple[str, ...] = ()


class HasWorkspaces(Protocol):
    """A data folder, or only its logs."""

    @property
    def workspaces(self) -> TextFolder: ...


def find_session_use(contents: HasWorkspaces, session: str) -> SessionUse:
    """How the session was last used; empty if it is not known."""
    text = contents.workspaces.read(session_file_key(session)) or ""
    if text.startswith("{"):
        try:
            return msgspec.json.decode(text, type=SessionUse)
        except msgspec.DecodeError:
            return SessionUse()
    return SessionUse(text)  # the folder alone, as `tidegate wrap` and earlier versions write it
