"""A client's own request, shortened by the guard alone: for when the view of its session cannot be sent."""

from typing import Final

from tidegate.core.policy.policy import Policy
from tidegate.session.following import FollowingSession
from tidegate.session.managed_request import ClientRequest, write_request
from tidegate.session.session import Session
from tidegate.wire.splicing.units import HostUnit

_GUARD_ALONE: Final = Policy("guard", {}, reserve=4096)


def write_guarded(client: ClientRequest, window: int) -> bytes:
    """The client's request, without its oldest messages if it does not fit the window. Nothing is logged.

    Notes about what left name no ids: they would not be those of the log. TooSmall if the fixed part alone does not
    fit, BadRequest if the result breaks a rule of the provider.
    """
    client = client._replace(offers_recall=False, recall_name="")
    with Session(client.host.model, policy=_GUARD_ALONE, window=window, wire=client.dialect) as session:
        followed = FollowingSession[HostUnit](session).prepare(client.items, fixed_part=client.fixed_part)
        return client.text if followed.is_unchanged else write_request(client, followed, window)
