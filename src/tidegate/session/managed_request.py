"""A request of a client with the view of its conversation: the bytes that are sent in its place.

The gateway and `tidegate.managed` use it: both have the HTTP request that a client wrote.
"""

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from tidegate.core.errors import BadRequest
from tidegate.core.ledger.recall_pointers import omit_recall_pointers
from tidegate.core.messages import Message, Part, Result, Text
from tidegate.session.following import FixedPart, FollowedRequest, HostItem, Shown, make_host_item
from tidegate.wire.rendering.blocks import JsonObject
from tidegate.wire.splicing.head import find_request_faults, leave_out_thinking, lower_output
from tidegate.wire.splicing.units import READERS, HostRequest, HostUnit
from tidegate.wire.splicing.writer import ShownUnit, write_messages

_MIN_OUTPUT = 256
"""Tokens of output that are always left: less would end every answer at once."""


class ClientRequest(NamedTuple):
    """A request as the client sent it: its bytes (not compressed), its JSON, and its messages.

    With `offers_recall`, `text` has the tool `recall` beside the client's own.
    """

    dialect: str
    text: bytes
    body: JsonObject
    host: HostRequest
    items: list[HostItem[HostUnit]]
    offers_recall: bool = False

    @property
    def fixed_part(self) -> FixedPart:
        return FixedPart(self.host.system, self.host.tools)


def read_client_request(dialect: str, text: bytes, model: str) -> ClientRequest | None:
    """Read a request; None if it is no JSON object, which the upstream shall say."""
    try:
        body = msgspec.json.decode(text)
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return None
    if not isinstance(body, dict):
        return None
    host = READERS[dialect](body)
    if model and not host.model:
        host = msgspec.structs.replace(host, model=model)
    return ClientRequest(dialect, text, body, host, [make_host_item(unit, unit.message) for unit in host.units])


def write_request(client: ClientRequest, followed: FollowedRequest[HostUnit], window: int | None) -> bytes:
    """The bytes to send: the client's own, or these with the edits of the view.

    BadRequest if an edited request breaks a rule that the client's own did not break.
    """
    text = client.text
    if not followed.is_unchanged:
        text = write_view(client, followed.shown)
    if window:
        text = lower_output(client.dialect, text, client.body, max(window - followed.tokens, _MIN_OUTPUT))
    return text if followed.is_unchanged else _check_edited(client, text)


def write_view(client: ClientRequest, shown: Sequence[Shown[HostUnit]]) -> bytes:
    """The client's bytes with the edits of the view."""
    units = [
        ShownUnit(each.item.host if each.item else None, None if each.state == "kept" else each.message, each.signed)
        for each in shown
    ]
    if not client.offers_recall:
        units = [each._replace(message=_omit_pointers(each.message)) if each.message else each for each in units]
    return write_messages(client.dialect, client.text, units, client.host.fixed_items)


def _omit_pointers(message: Message) -> Message:
    return msgspec.structs.replace(message, parts=tuple(map(_omit_pointers_of, message.parts)))


def _omit_pointers_of(part: Part) -> Part:
    if isinstance(part, Text):
        text = omit_recall_pointers(part.text)
        return part if text == part.text else msgspec.structs.replace(part, text=text)
    if isinstance(part, Result):
        return msgspec.structs.replace(part, parts=tuple(map(_omit_pointers_of, part.parts)))
    return part


def _check_edited(client: ClientRequest, text: bytes) -> bytes:
    model = client.host.model
    known = Counter(fault.rule for fault in find_request_faults(client.dialect, client.text, model))
    faults = [fault for fault in find_request_faults(client.dialect, text, model) if fault.rule not in known]
    if any("must start with a thinking block" in fault.text for fault in faults):
        text = leave_out_thinking(text)
        faults = [fault for fault in find_request_faults(client.dialect, text, model) if fault.rule not in known]
    if faults:
        raise BadRequest(
            f"The edited request broke a rule of {client.dialect}: {faults[0].rule} at {faults[0].where}",
            "The client's own request was sent. This is a defect of tidegate; please report it.",
        )
    return text
