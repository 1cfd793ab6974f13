"""Play a recording through a peer: one record for each assistant message of the recording.

Run by the peer's own interpreter: standard library only. A record has `at` (the index of the assistant message) and
`messages` (the request that would have been sent just before it), or `error` if the peer failed. Its other keys:
`faults` (the defects of the request), `guarded` (what the guard did about them), `refused` (why the peer would not
send it), and `summaries` (the tokens read and written by summaries).
"""

# mypy: disable-error-code="import-not-found"

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple, Protocol

from chat_messages import Chat, count_chat_tokens, count_leading_system
from request_guard import find_request_defects, guard_request


class PeerRefusal(Exception):
    """The peer refuses to send this request. `view` is its request so far, for the guard to go on with."""

    def __init__(self, reason: str, view: Sequence[Chat]) -> None:
        super().__init__(reason)
        self.view = list(view)


class PeerSession(Protocol):
    """One recording under one peer."""

    def add_message(self, index: int, message: Chat) -> None:
        """Take the next message of the recording."""

    def build_request(self) -> list[Chat]:
        """Return the request that would be sent now. A message the peer leaves alone is the recorded dict itself."""

    def take_summary_costs(self) -> list[dict[str, int]]:
        """Return the summaries written since the last call, each with the tokens `read` and `written`."""

    def close(self) -> None: ...


class _RecordingPosition(NamedTuple):
    """The first message of the recording, and the messages that are to be answered now."""

    first: Sequence[Chat]
    newest: Sequence[Chat]


def _make_record(peer: PeerSession, window: int, guarded: bool, position: _RecordingPosition) -> dict[str, Any]:
    """Return the record of the next request, without its index."""
    record: dict[str, Any] = {}
    try:
        view = peer.build_request()
    except PeerRefusal as refusal:
        if not guarded:
            return {"error": str(refusal)}
        record["refused"] = str(refusal)[:300]
        view = refusal.view
    except Exception as failure:  # noqa: BLE001 - an error of a library is its answer to this request
        return {"error": f"{type(failure).__name__}: {failure}"[:500]}
    if faults := find_request_defects(view, window, position.first):
        record["faults"] = faults
        if guarded:
            guard = guard_request(view, window, position.newest)
            record["guarded"] = {"tokens": count_chat_tokens(view), "dropped": guard.dropped, "clipped": guard.clipped}
            view = guard.messages
    return {**record, "messages": view}


def play_recording(recorded: Sequence[Chat], peer: PeerSession, window: int, guarded: bool) -> Iterator[dict[str, Any]]:
    """Yield a record for each assistant message, in order."""
    start = 0
    first = recorded[count_leading_system(recorded) :][:1]
    for index, message in enumerate(recorded):
        if message["role"] == "assistant":
            record = {
                "at": index,
                **_make_record(peer, window, guarded, _RecordingPosition(first, recorded[start:index])),
            }
            if costs := peer.take_summary_costs():
                record["summaries"] = costs
            yield record
            start = index
        elif message["role"] != "tool":
            start = index
        peer.add_message(index, message)
