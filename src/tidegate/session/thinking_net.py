"""Let a provider drop thinking in a wrong place instead of refusing the request.

It is a net: the engine decides which thinking goes with a view (`core/thinking_walk.py`). No block should be dropped.
"""

from typing import Final

from tidegate.session.following import FollowingSession
from tidegate.session.managed_request import ClientRequest
from tidegate.wire.anthropic.models import accepts_block_binding
from tidegate.wire.splicing.head import ask_to_drop_thinking
from tidegate.wire.splicing.units import HostUnit

BETA_HEADER: Final = "anthropic-beta"
_CONTROL_BETA: Final = "thinking-binding-controls-2026-08-01"


def allow_dropping(
    client: ClientRequest, following: FollowingSession[HostUnit], host: str, text: bytes, betas: str
) -> tuple[bytes, str]:
    """The request and its header `anthropic-beta`, from the first edited one on, where the server surely knows both."""
    is_edited = following.session.view.first_edit_seq
    if client.dialect != "anthropic" or not is_edited or not accepts_block_binding(client.host.model, host):
        return text, betas
    asking = client.change_head(text, ask_to_drop_thinking)
    if asking == text or _CONTROL_BETA in betas:
        return asking, betas
    return asking, ",".join(filter(None, [betas, _CONTROL_BETA]))
