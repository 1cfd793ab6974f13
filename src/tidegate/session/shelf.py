"""Where effects go when nobody else carries them out: kept in memory, so that what the view says of them is true."""

from tidegate.core.outcome import Effect, Flush


class Shelf:
    """`files` by path, as the view names them; `memory` holds what was flushed, newest last."""

    def __init__(self) -> None:
        self.files: dict[str, str] = {}
        self.memory: list[str] = []

    def __call__(self, effect: Effect) -> None:
        if isinstance(effect, Flush):
            self.memory.append(effect.text)
        elif effect.append:
            self.files[effect.path] = self.files.get(effect.path, "") + effect.text
        else:
            self.files[effect.path] = effect.text
