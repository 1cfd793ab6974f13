"""Signed thinking that a provider may drop, or refuses, after an edit.

The engine decides which thinking goes with a view (`core/thinking_walk.py`). Here is what catches its mistakes:

- Where a provider can be told to drop thinking in a wrong place instead of refusing the request, it is told so. That is
  a net: no block should be dropped.
- If a provider refuses thinking although the model's name does not say that it would, the request is sent again without
  any signed thinking that was made until then, for good. From then on, this model of this upstream counts as one whose
  thinking is bound to what is before it.
"""

from typing import Final

from tidegate.core.messages import compaction_of
from tidegate.core.thinking_walk import has_signed_data
from tidegate.session.following import FollowedRequest, FollowingSession, HostObject
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


class RefusedThinking:
    """Which models refused it, by upstream; for all sessions of a host."""

    def __init__(self) -> None:
        self._models: set[tuple[str, str]] = set()

    def apply(self, following: FollowingSession[HostObject], upstream: str, model: str) -> None:
        """Apply what is known of a model to the next request of a session."""
        following.refuses_edited_thinking = (upstream, model) in self._models

    def note(self, following: FollowingSession[HostObject], upstream: str, model: str) -> None:
        """Take note of a refusal."""
        self._models.add((upstream, model))
        self.apply(following, upstream, model)


def has_thinking_behind_edits(request: FollowedRequest[HostObject]) -> bool:
    """Whether a request carries signed thinking and something of ours. Else a host's own code has to recover."""
    messages = request.changed or ()
    return any(each.signed and has_signed_data(each.item.message if each.item else each.message) for each in messages)
