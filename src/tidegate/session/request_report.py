"""What became of a request beyond the edits of its policy: notes in its session, and lines for the program's log.

The gateway, `tidegate.managed` and the adapters report the same. The last two write their lines with `logging`: what
somebody should see is a warning.
"""

import logging
from typing import Final

from tidegate.core.errors import TidegateError
from tidegate.core.notes import SentUnmanaged, ThinkingLeftOut
from tidegate.session.following import FollowedRequest, FollowingSession, HostObject
from tidegate.session.session import Session

_LOG: Final = logging.getLogger(__name__)


def note_left_out(
    following: FollowingSession[HostObject], request: FollowedRequest[HostObject]
) -> ThinkingLeftOut | None:
    """The note that a request leaves out thinking of more messages than the one before; None if it does not."""
    left_out, before = request.count_unsigned(), following.left_out_thinking
    following.left_out_thinking = left_out
    if left_out <= before:
        return None
    why = f"thinking of {left_out} messages is left out: what it was made from has been edited"
    return ThinkingLeftOut(why)


def has_guard_acted(session: Session) -> bool:
    """Whether the guard shortened the view of the last request."""
    return any(decision.acted and decision.stage == "guard" for decision in session.last_decisions)


def list_repairs(session: Session) -> list[str]:
    """What was wrong with the calls and results of the last request, such as a result without a call."""
    return [str(each.reason) for each in session.last_decisions if each.acted and each.stage == "repair"]


def report_request(following: FollowingSession[HostObject], request: FollowedRequest[HostObject], name: str) -> None:
    """Note and log what a request of the session `name` lacks."""
    following.unmanaged_reason = ""
    if has_guard_acted(following.session):
        _LOG.warning("The guard shortened the view of %s.", name)
    note = note_left_out(following, request)
    if note is not None:
        _LOG.info("%s: %s", name, note.text)
        following.session.history.append_note(note)


def report_unmanaged(following: FollowingSession[HostObject] | None, why: str) -> None:
    """Note and log that a request is sent unmanaged, unless the one before was for the same reason."""
    if following is not None and following.unmanaged_reason == why:
        return
    _LOG.warning("A request is sent unmanaged: %s", why)
    if following is not None:
        following.unmanaged_reason = why
        try:
            following.session.history.append_note(SentUnmanaged(why))
        except (TidegateError, OSError) as failure:
            _LOG.warning("That was not logged: %s", failure)
