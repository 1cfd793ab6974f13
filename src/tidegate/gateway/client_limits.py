"""At which size clients compact their history themselves, so that the gateway can stay below it.

A client compares the usage of the last answer with its own idea of the window. If it compacts first, the log gets its
summary instead of the conversation. What was measured or read in a client says so; the other limits are chosen, well
below the window.
"""

from collections.abc import Callable, Mapping
from typing import Final

_MARGIN: Final = 0.95
"""The client's count includes the answer, and ours may differ from the provider's."""

_LIMITS: Final[Mapping[str, Callable[[int], int]]] = {
    # By the model's window. Codex knows its models with 272,000 tokens at most, whatever the provider offers.
    "codex": lambda window: min(241_000, int(window * 0.9)),  # measured with 0.166
    "claude": lambda window: int(window * 0.9),  # chosen; it compacted at 990,000 of 1M
    "opencode": lambda window: int(window * 0.85),  # chosen; it compacted at 125,000 of 128,000
    "pi": lambda window: window - 16_384,  # its setting reserveTokens
    "gemini": lambda window: window // 2,  # COMPRESSION_TOKEN_THRESHOLD of 0.61.0
    "qwen": lambda window: window // 2,  # chosen: it is a fork of Gemini CLI
}
_AGENTS: Final = (("geminicli", "gemini"), ("qwencode", "qwen"), ("codex", "codex"), ("claude-cli", "claude"))
"""The beginnings of `User-Agent`, for clients that do not name their conversation."""
_CODEX_WINDOW: Final = 272_000


def find_client_limit(client: str, headers: Mapping[str, str], window: int | None) -> int | None:
    """The largest window with which this client does not compact by itself; None if nothing is known about it.

    `window` is the model's, None if it is not known: then only Codex is known to assume one.
    """
    agent = headers.get("user-agent", "").lower()
    name = client or next((name for start, name in _AGENTS if agent.startswith(start)), "")
    if name not in _LIMITS or (window is None and name != "codex"):
        return None
    found = int(_LIMITS[name](window or _CODEX_WINDOW) * _MARGIN)
    return found if found > 0 else None
