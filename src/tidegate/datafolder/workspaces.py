"""The working folder that each session was last used in, so that `--last` finds the last session of a folder."""

from pathlib import Path

from tidegate.datafolder.contents import FolderContents
from tidegate.disk.folder import session_file_key


def note_workspace(contents: FolderContents, session: str, workspace: Path) -> None:
    """Note that the session is used in this folder. Writes nothing if that is known."""
    text = str(workspace.resolve())
    if find_workspace(contents, session) != text:
        contents.workspaces.update(session_file_key(session), lambda _: text)


def find_workspace(contents: FolderContents, session: str) -> str:
    """The folder that the session was last used in; empty if it is not known."""
    return contents.workspaces.read(session_file_key(session)) or ""
