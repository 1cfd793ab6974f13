"""Signed thinking that a provider refuses after an edit, although the model's name does not say that it would.

The request is sent again without any signed thinking that was made until then, for good. From then on, this model of
this upstream counts as one whose thinking is bound to what is before it (`core/thinking_walk.py`).
"""

from typing import TypeVar

from tidegate.core.thinking_walk import has_signed_data
from tidegate.session.following import FollowedRequest, FollowingSession

HostObject = TypeVar("HostObject")


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


def has_thinking_behind_edits(refused: FollowedRequest[HostObject]) -> bool:
    """Whether a request carries signed thinking and something of ours. Else a host's own code has to recover."""
    messages = refused.changed or ()
    return any(each.signed and has_signed_data(each.item.message if each.item else each.message) for each in messages)
