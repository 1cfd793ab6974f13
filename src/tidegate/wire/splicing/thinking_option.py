"""The option of a request that turns thinking on."""

from collections.abc import Mapping
from typing import Final

from tidegate.wire.splicing.spans import remove_member

THINKING_OPTION: Final = "thinking"


class ThinkingOption:
    """The field `thinking`: Anthropic's, and that of servers of other dialects which follow it.

    `beta` is the name and value of a header without which the provider refuses the field of `allow_dropping`.
    """

    beta: tuple[str, str] = "", ""

    def is_demanded(self, body: Mapping[str, object]) -> bool:
        """Whether a running tool loop must begin with thinking. The other modes leave it to the model."""
        thinking = body.get(THINKING_OPTION)
        return isinstance(thinking, dict) and thinking.get("type") == "enabled"

    def read_budget(self, body: Mapping[str, object]) -> int:
        """The tokens that a request gives to thinking; 0 for none or an amount that is not known."""
        thinking = body.get(THINKING_OPTION)
        budget = thinking.get("budget_tokens") if isinstance(thinking, dict) else None
        return budget if isinstance(budget, int) else 0

    def leave_out(self, text: bytes) -> bytes:
        """The request without thinking."""
        return remove_member(text, THINKING_OPTION)

    def may_drop(self, model: str, host: str) -> bool:
        """Whether a server surely knows the field of `allow_dropping`."""
        return False

    def allow_dropping(self, text: bytes) -> bytes:
        """The request that lets the provider drop thinking in a wrong place; as it is if that is not possible."""
        return text
