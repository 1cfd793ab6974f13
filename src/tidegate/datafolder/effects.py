"""Saves on disk what a policy wants saved before it leaves the view: the `effects` of a session in a data folder.

A Spill becomes a plain file in the session's folder, under the path that the view mentions, where the agent's read tool
opens it. A Flush becomes an entry of the day's note. Secrets are masked in both. If a write fails, this raises and the
plan leaves the view unchanged. Both may be repeated: after a crash it is unknown whether the last attempt succeeded.
"""

from tidegate.core.errors import BadInput
from tidegate.core.outcome import Effect, Flush, Spill
from tidegate.core.text.secrets import SecretMask
from tidegate.disk.folder import TextFolder
from tidegate.memory.notes import NoteEffects, Notes

_MAX_FILES_BYTES = 2 << 30
"""The most bytes that the files of one session may take together. The folder limits the size of one file."""


class DataFolderEffects:
    def __init__(
        self, folder: TextFolder, notes: Notes, session: str, mask: SecretMask, *, max_session: int = _MAX_FILES_BYTES
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
        """The sum of sizes is cached and computed again only before a refusal, because others may have changed the
        files.
        """
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
