"""What the models behind Anthropic's dialect check and accept, by their names.

The rows follow platform.claude.com/docs/en/build-with-claude: preserved-thinking (what thinking is bound to),
thinking-troubleshooting (older models) and mid-conversation-system-messages, read in November 2026. A newer or unknown
model is treated like the newest: what it would not need is only a little less text, what it needs is there.
"""

from functools import lru_cache
from typing import Final

from tidegate.core.text.lazy_pattern import LazyPattern

_NAME: Final = LazyPattern(
    r"claude-(?P<old>\d)(?:[.-](?P<old_minor>\d))?(?!\d)"  # claude-3-5-sonnet, claude-2.1
    r"|claude-(?P<family>[a-z]+)-(?P<major>\d{1,2})(?:[.-](?P<minor>\d{1,2}))?(?!\d)"
)
_NEWEST: Final = (99, 0)
_FIRST_BOUND_TO_PREFIX: Final = (5, 1)
ANTHROPIC_HOSTS = frozenset({"api.anthropic.com"})
_FAMILIES_WITH_COMPACTION: Final = ("opus", "sonnet", "fable", "mythos")
_FIRST_WITH_COMPACTION: Final = (4, 6)
_WITHOUT_SYSTEM_MESSAGES: Final = frozenset({("sonnet", (5, 0))})
_FIRST_WITH_SYSTEM_MESSAGES: Final = (4, 8)
_MAX_KNOWN: Final = 256
"""Names whose answers are kept: each request asks several times."""


def _parse_name(model: str) -> tuple[str, tuple[int, int]]:
    """The family and version in a model's name, also in the names of other clouds (`us.anthropic.claude-...`)."""
    match = _NAME.search(model.lower())
    if match is None:
        return "", _NEWEST
    if match["old"]:
        return "", (int(match["old"]), int(match["old_minor"] or 0))
    return match["family"], (int(match["major"]), int(match["minor"] or 0))


@lru_cache(_MAX_KNOWN)
def binds_prefix(model: str) -> bool:
    """Whether thinking is bound to everything before it, not only to its own block."""
    return _parse_name(model)[1] >= _FIRST_BOUND_TO_PREFIX


@lru_cache(_MAX_KNOWN)
def demands_loop_start(model: str) -> bool:
    """Whether with `thinking: {"type": "enabled"}` a running tool loop must begin with thinking.

    Models that bind thinking to what is before it demand it of no loop. A model without a name may be an older one.
    """
    return not model or not binds_prefix(model)


@lru_cache(_MAX_KNOWN)
def compacts_on_demand(model: str) -> bool:
    """Whether a model writes a block in place of the messages of a request, and reads it.

    Fable and Mythos 5, Opus 4.6, Sonnet 4.6 and later, but not on Bedrock: https://platform.claude.com/docs/en/build-with-claude/compaction-on-demand
    """
    family, version = _parse_name(model)
    is_bedrock = "anthropic.claude" in model
    return family in _FAMILIES_WITH_COMPACTION and version >= _FIRST_WITH_COMPACTION and not is_bedrock


def serves_compaction(host: str) -> bool:
    """Whether a server surely writes and reads such blocks."""
    return host in ANTHROPIC_HOSTS


def accepts_block_binding(model: str, host: str) -> bool:
    """Whether `thinking.block_binding` is surely accepted by a server: some deployments and older models refuse it."""
    return host in ANTHROPIC_HOSTS and _FIRST_BOUND_TO_PREFIX <= _parse_name(model)[1] < _NEWEST


def accepts_system_messages(model: str) -> bool:
    """Whether a message in mid-conversation may have the role `system`."""
    family, version = _parse_name(model)
    if version == _NEWEST or (family, version) in _WITHOUT_SYSTEM_MESSAGES:
        return False
    return version >= (_FIRST_WITH_SYSTEM_MESSAGES if family == "opus" else (5, 0))
