"""Let a provider drop thinking in a wrong place instead of refusing the request.

It is a net: the engine decides which thinking goes with a view (`core/thinking_walk.py`). No block should be dropped.
"""

from typing import Final

from tidegate.core.messages import compaction_of
from tidegate.session.following import FollowingSession
from tidegate.session.managed_request import ClientRequest
from tidegate.wire.registry import get_dialect
from tidegate.wire.splicing.units import HostUnit

BETA_HEADER: Final = "anthropic-beta"


def allow_dropping(
    client: ClientRequest, following: FollowingSession[HostUnit], host: str, text: bytes, betas: str
) -> tuple[bytes, str]:
    """The request and its header `anthropic-beta`, from the first edited one on, where the server surely knows both."""
    betas = _add_compaction(client, following, betas)
    is_edited = following.session.view.first_edit_seq
    option = get_dialect(client.dialect).thinking
    if not is_edited or not option.may_drop(client.host.model, host):
        return text, betas
    asking = client.change_head(text, option.allow_dropping)
    _, beta = option.beta
    if asking == text or beta in betas:
        return asking, betas
    return asking, ",".join(filter(None, [betas, beta]))


def _add_compaction(client: ClientRequest, following: FollowingSession[HostUnit], betas: str) -> str:
    """The header with the value that every request needs which carries a compaction that was made on demand.

    https://platform.claude.com/docs/en/build-with-claude/compaction-on-demand
    """
    form, items = get_dialect(client.dialect).find_compaction(client.host.model), following.session.view.items
    block = compaction_of(items[0].message) if items else None
    if form is None or block is None or not block.horizon:
        return betas
    return form.add_beta({BETA_HEADER: betas} if betas else {})[BETA_HEADER]
