"""Where a session stores its events and what its policy writes."""

from collections.abc import Callable

import msgspec

from tidegate.core.outcome import Effect, Flush
from tidegate.core.view import LogView
from tidegate.store.log import Log, MemoryLog


class InMemoryEffects:
    """The effects of a policy, kept in memory: `files` by path, as the view refers to them; `flushed`, newest last."""

    def __init__(self) -> None:
        self.files: dict[str, str] = {}
        self.flushed: list[str] = []

    def __call__(self, effect: Effect) -> None:
        if isinstance(effect, Flush):
            self.flushed.append(effect.text)
        elif effect.append:
            self.files[effect.path] = self.files.get(effect.path, "") + effect.text
        else:
            self.files[effect.path] = effect.text


class SessionStorage(msgspec.Struct, frozen=True):
    """A log together with what else a session needs to be stored: `Session(log=SessionStorage(...))`.

    `effects` saves what the policy writes to files and memory; the default keeps it in memory. `mask` hides secrets in
    these texts. `snapshot` is a view folded up to some event of the log, to continue from. With a storage the session
    notes its model and options in the log, so that past requests can be rendered exactly.
    """

    log: Log = msgspec.field(default_factory=MemoryLog)
    effects: Callable[[Effect], None] = msgspec.field(default_factory=InMemoryEffects)
    mask: Callable[[str], str] = str
    snapshot: LogView | None = None
