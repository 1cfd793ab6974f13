"""The window of a model, and its source.

In order of precedence: the user's setting, the number in the provider's own error, the server's answer when asked, the
catalog; else the window is unknown and reported so. A window belongs to a model at an address: the same model can have
different windows with different providers, plans or machines.

A number from an error is used until it is disproved: when the server reports more than it did then (it was restarted
with a larger window), or has read more tokens in one request.
"""

from collections.abc import Awaitable, Callable, Iterable, Mapping
from functools import cache
from typing import Literal

import msgspec

from tidegate.models.catalog import ModelInfo, find_entry, find_window
from tidegate.models.errors.classification import ProviderError
from tidegate.models.server_probes import ProbeResult, probe_server

WindowSource = Literal["setting", "learned", "server", "catalog", "unknown"]
WindowQuery = Callable[[], Awaitable[ProbeResult | None]]


class ResolvedWindow(msgspec.Struct, frozen=True):
    """`explanation` is for the user. Not `is_final`: the model is not loaded yet, or no server answered; ask again."""

    tokens: int | None
    source: WindowSource
    explanation: str
    is_final: bool = True


class LearnedWindow(msgspec.Struct, frozen=True):
    """A record that can be stored. `address` is the base URL, empty for the provider itself.

    `named` is the window that the server had reported before the error, 0: none. Some report more than they accept.
    """

    address: str
    model: str
    tokens: int
    named: int = 0


class LearnedWindows:
    """Windows learned from errors. The newest counts: a server may be restarted with another size."""

    def __init__(self, windows: Iterable[LearnedWindow] = ()) -> None:
        self._windows = {_key(each.address, each.model): each for each in windows if each.tokens > 0}

    def learn(self, address: str, model: str, fault: ProviderError, server_tokens: int = 0) -> LearnedWindow | None:
        """Learn a window only from a number that the provider named as such. No guess ever lowers a window."""
        if fault.kind not in ("overflow", "output_cap") or fault.window is None:
            return None
        learned_window = LearnedWindow(address.rstrip("/"), model, fault.window, server_tokens)
        self._windows[_key(address, model)] = learned_window
        return learned_window

    def find(self, address: str, model: str) -> LearnedWindow | None:
        return self._windows.get(_key(address, model))

    def find_tokens(self, address: str, model: str) -> int | None:
        window = self.find(address, model)
        return window.tokens if window else None

    def forget(self, address: str, model: str) -> None:
        self._windows.pop(_key(address, model), None)

    def to_records(self) -> list[LearnedWindow]:
        """Return the records, to be stored and passed to the next process."""
        return sorted(self._windows.values(), key=lambda each: (each.address, each.model))


def _key(address: str, model: str) -> tuple[str, str]:
    return address.rstrip("/"), model.strip()


@cache
def shared_learned_windows() -> LearnedWindows:
    """The windows that this process learned, shared by its sessions."""
    return LearnedWindows()


class WindowResolver:
    """The window of one model at one address. `window` never waits; `query_server` asks the server first."""

    def __init__(
        self,
        model: str,
        *,
        setting: int | None = None,
        wire: str = "openai_chat",
        base_url: str = "",
        key: str = "",
        headers: Mapping[str, str] | None = None,
        overrides: Mapping[str, ModelInfo] | None = None,
        learned_windows: LearnedWindows | None = None,
    ) -> None:
        self.model = model
        self.address = base_url
        own = find_entry(model, overrides or {})
        self._setting = setting or (own.window if own else None)
        self._catalog = find_window(model)
        self._learned = shared_learned_windows() if learned_windows is None else learned_windows
        self._asked: ProbeResult | None = None
        self._largest_read = 0  # tokens of the largest request that was answered
        self.forgotten_notice = ""  # the notice for the user after a learned window was disproved
        # In a closure, so that no dump of this object shows the key.
        self._ask: WindowQuery = lambda: probe_server(model, wire=wire, base_url=base_url, key=key, headers=headers)

    @property
    def window(self) -> ResolvedWindow:
        tokens = self._learned.find_tokens(self.address, self.model)
        if self._setting:
            return self._set(self._setting, tokens)
        if tokens:
            return ResolvedWindow(
                tokens, "learned", f"The provider said in an error that {self.model} holds {tokens:,} tokens."
            )
        answer = self._asked
        if answer and answer.tokens:
            return ResolvedWindow(answer.tokens, "server", answer.explanation, answer.is_final)
        sure = answer is None or answer.is_final
        remark = f" {answer.explanation}" if answer else ""
        if self._catalog:
            explanation = f"{self.model} holds {self._catalog:,} tokens, says the catalog.{remark}"
            return ResolvedWindow(self._catalog, "catalog", explanation, sure)
        return ResolvedWindow(
            None, "unknown", f"How much {self.model} holds is not known.{remark} Set its window.", sure
        )

    async def query_server(self, *, again: bool = False) -> ResolvedWindow:
        """Ask at most once until the answer is final. Do not ask if a window is set."""
        if not self._setting and (again or self._asked is None or not self._asked.is_final):
            self._asked = await self._ask()
            known_window, server_tokens = self._learned.find(self.address, self.model), self._server_tokens
            if known_window and server_tokens > max(known_window.tokens, known_window.named):
                self._forget(f"the server now names {server_tokens:,}", known_window.tokens)
        return self.window

    def learn(self, fault: ProviderError) -> bool:
        """Return True if a window was learned; `window` has it from now on, unless one is set by hand.

        A window that is smaller than a request that was answered is not learned: it may be text of the request.
        """
        if fault.window is not None and fault.window < self._largest_read:
            return False
        return self._learned.learn(self.address, self.model, fault, self._server_tokens) is not None

    def confirm_tokens(self, tokens: int) -> bool:
        """Record that one request had this many tokens. Return True if that disproved a smaller learned window."""
        self._largest_read = max(self._largest_read, tokens)
        limit = self._learned.find_tokens(self.address, self.model)
        if not limit or tokens <= limit:
            return False
        self._forget(f"it has read {tokens:,} in one request", limit)
        return True

    @property
    def _server_tokens(self) -> int:
        return self._asked.tokens or 0 if self._asked and self._asked.is_final else 0

    def _forget(self, why: str, tokens: int) -> None:
        self._learned.forget(self.address, self.model)
        self.forgotten_notice = (
            f"{self.model} was said to hold {tokens:,} tokens in an error; {why}: that no longer counts."
        )

    def _set(self, setting: int, limit: int | None) -> ResolvedWindow:
        explanation = f"The window of {self.model} is set to {setting:,} tokens."
        if limit and limit < setting:
            explanation += f" The provider said in an error that it holds {limit:,}: set it to that."
        return ResolvedWindow(setting, "setting", explanation)
