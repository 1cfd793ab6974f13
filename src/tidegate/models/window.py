"""How much a model really holds, and who says so.

In this order: what the user set, what the provider said in its own error, what the server said when asked, what the
catalog says; else it is unknown, and unknown is said. A window belongs to a model at an address: the same model holds
more with one provider, plan or machine than with another.
"""

from collections.abc import Awaitable, Callable, Iterable, Mapping
from functools import cache
from typing import Literal

import msgspec

from tidegate.models.catalog import Model, entry_of, window_of
from tidegate.models.faults import Fault
from tidegate.models.probes import Asked, ask_server

Source = Literal["setting", "learned", "server", "catalog", "unknown"]
Ask = Callable[[], Awaitable[Asked | None]]


class Window(msgspec.Struct, frozen=True):
    """`said` is the sentence for the user. Not `sure`: the model is not loaded yet, or nobody answered; ask again."""

    tokens: int | None
    source: Source
    said: str
    sure: bool = True


class LearnedWindow(msgspec.Struct, frozen=True):
    """A record that can be kept: `address` is the base URL, empty for the provider itself."""

    address: str
    model: str
    tokens: int


class LearnedWindows:
    """What providers said in their errors. The newest word counts: a server may be started again with another size."""

    def __init__(self, kept: Iterable[LearnedWindow] = ()) -> None:
        self._windows = {_key(each.address, each.model): each for each in kept if each.tokens > 0}

    def learn(self, address: str, model: str, fault: Fault) -> LearnedWindow | None:
        """Only a number that the provider named as the window. Nothing is ever lowered by a guess."""
        if fault.kind not in ("overflow", "output_cap") or fault.window is None:
            return None
        learned = LearnedWindow(address.rstrip("/"), model, fault.window)
        self._windows[_key(address, model)] = learned
        return learned

    def of(self, address: str, model: str) -> int | None:
        found = self._windows.get(_key(address, model))
        return found.tokens if found else None

    def forget(self, address: str, model: str) -> None:
        self._windows.pop(_key(address, model), None)

    def kept(self) -> list[LearnedWindow]:
        """To be stored, and handed to the next process."""
        return sorted(self._windows.values(), key=lambda each: (each.address, each.model))


def _key(address: str, model: str) -> tuple[str, str]:
    return address.rstrip("/"), model.strip()


@cache
def learned_here() -> LearnedWindows:
    """What this process learned: what one session was told, the next one knows."""
    return LearnedWindows()


class WindowTruth:
    """The window of one model at one address. `window` never waits; `ask` goes to the server first if that can help."""

    def __init__(
        self,
        model: str,
        *,
        setting: int | None = None,
        wire: str = "openai_chat",
        base_url: str = "",
        key: str = "",
        headers: Mapping[str, str] | None = None,
        overrides: Mapping[str, Model] | None = None,
        learned: LearnedWindows | None = None,
    ) -> None:
        self.model = model
        self.address = base_url
        own = entry_of(model, overrides or {})
        self._setting = setting or (own.window if own else None)
        self._catalog = window_of(model)
        self._learned = learned_here() if learned is None else learned
        self._asked: Asked | None = None
        # In a closure, so that no dump of this object shows the key.
        self._ask: Ask = lambda: ask_server(model, wire=wire, base_url=base_url, key=key, headers=headers)

    @property
    def window(self) -> Window:
        learned = self._learned.of(self.address, self.model)
        if self._setting:
            return self._set(self._setting, learned)
        if learned:
            return Window(
                learned, "learned", f"The provider said in an error that {self.model} holds {learned:,} tokens."
            )
        asked = self._asked
        if asked and asked.tokens:
            return Window(asked.tokens, "server", asked.said, asked.sure)
        sure = asked is None or asked.sure
        remark = f" {asked.said}" if asked else ""
        if self._catalog:
            said = f"{self.model} holds {self._catalog:,} tokens, says the catalog.{remark}"
            return Window(self._catalog, "catalog", said, sure)
        return Window(None, "unknown", f"How much {self.model} holds is not known.{remark} Set its window.", sure)

    async def ask(self, *, again: bool = False) -> Window:
        """Asks at most once until the answer is sure. Nothing is asked if the setting or an error has spoken."""
        known = self._setting or self._learned.of(self.address, self.model)
        if not known and (again or self._asked is None or not self._asked.sure):
            self._asked = await self._ask()
        return self.window

    def learn(self, fault: Fault) -> bool:
        """True if a window was learned; `window` tells it from now on, unless one is set by hand."""
        return self._learned.learn(self.address, self.model, fault) is not None

    def _set(self, setting: int, learned: int | None) -> Window:
        said = f"The window of {self.model} is set to {setting:,} tokens."
        if learned and learned < setting:
            said += f" The provider said in an error that it holds {learned:,}: set it to that."
        return Window(setting, "setting", said)
