"""Carries out the effects of a policy on disk: the `carry` of a session in a data folder.

A Spill becomes a plain file in the session's folder, under the name that the view gives, so that the agent's read tool
can open it. A Flush becomes an entry of the note of the day. Secrets are masked in both. If something cannot be
written, an error is raised and the plan does not change the view. Effects may be repeated, because after a crash it is
not known whether the last attempt succeeded.
"""

from tidegate.core.errors import BadInput
from tidegate.core.outcome import Effect, Flush, Spill
from tidegate.core.text.secrets import SecretMask
from tidegate.disk.folder import Folder
from tidegate.memory.notes import NoteEffects, Notes

_MAX_FILES_BYTES = 2 << 30
"""Bytes that the files of one session may take together. `Folder` limits a single file."""


class DataFolderEffects:
    def __init__(
        self, folder: Folder, notes: Notes, session: str, mask: SecretMask, *, max_session: int = _MAX_FILES_BYTES
    ) -> None:
        self.folder = folder
        self.mask = mask
        self.max_total = max_session
        self._size: int | None = None
        self._note_effects = NoteEffects(notes, session)

    def __call__(self, effect: Effect) -> None:
        if isinstance(effect, Flush):
            self._note_effects(effect)
        else:
            self._write_spill(effect)

    def _write_spill(self, effect: Spill) -> None:
        """The sum of sizes is cached and computed again only before a refusal: others may have changed the files."""
        if not effect.path:
            raise BadInput("A file needs a name.", "The policy's `folder` or `save` gives it.")
        text = self.mask(effect.text)
        size = len(text.encode("utf-8", "surrogateescape"))
        more = size if effect.append else size - self.folder.size(effect.path)
        if self._size is None or self._size + more > self.max_total:
            self._size = self.folder.size()
        if self._size + more > self.max_total:
            raise BadInput(
                f"The files of this session take {self._size:,} bytes; with {more:,} more they would be over"
                f" {self.max_total:,}. {effect.path} was not written.",
                "Remove files from its folder that are not needed, or raise max_session.",
            )
        written = self.folder.append(effect.path, text) if effect.append else self.folder.write(effect.path, text)
        if written:
            self._size += more
