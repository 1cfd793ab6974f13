"""A client's own request, for when the view of its session cannot be sent."""

from typing import Final

from tidegate.core.errors import TidegateError
from tidegate.core.policy.policy import Policy
from tidegate.session.following import FollowingSession
from tidegate.session.managed_request import (
    ClientRequest,
    read_client_request,
    write_request,
    write_without_thinking,
)
from tidegate.session.session import Session
from tidegate.wire.splicing.units import HostUnit

_GUARD_ALONE: Final = Policy("guard", {}, reserve=4096)


def write_guarded(client: ClientRequest, window: int, following: FollowingSession[HostUnit] | None = None) -> bytes:
    """The client's request, without its oldest messages if it does not fit the window. Nothing is logged.

    `following` is the conversation, if it is known: it has learned by how much the provider's count is larger.
    Notes about what left name no ids: they would not be those of the log. TooSmall if the fixed part alone does not
    fit, BadRequest if the result breaks a rule of the provider.
    """
    client = client._replace(offers_recall=False, recall_name="")
    if following is not None:
        own_session = following.session
        window = int(window / max(1.0, own_session.view.scale_by_model.get(own_session.model, 1.0)))
    with Session(client.host.model, policy=_GUARD_ALONE, window=window, wire=client.dialect) as session:
        followed = FollowingSession[HostUnit](session).prepare(client.items, fixed_part=client.fixed_part)
        return client.text if followed.is_unchanged else write_request(client, followed)


def leave_out_bound_thinking(client: ClientRequest, following: FollowingSession[HostUnit], text: bytes) -> bytes:
    """The client's own request, or what the guard made of it, without thinking that may be bound to our view."""
    if not (following.binds_prefix and following.sent_anything_of_ours):
        return text
    request = client if text == client.text else read_client_request(client.dialect, text, client.host.model)
    return write_without_thinking(request) if request is not None else text


def write_own_request(client: ClientRequest, following: FollowingSession[HostUnit]) -> bytes:
    """The client's own request as it may be sent unmanaged: it fits if the guard can make it fit."""
    window, text = following.session.window, client.text
    if window is not None and len(text) > window:  # a token has at least a byte
        try:
            text = write_guarded(client, window, following)
        except (TidegateError, AssertionError):
            text = client.text
    return leave_out_bound_thinking(client, following, text)
