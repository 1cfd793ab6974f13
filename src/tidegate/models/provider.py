"""The protocol of a model provider: the bytes of a request in, deltas and one reply out."""

from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Protocol

from tidegate.models.errors.classification import transport_error
from tidegate.wire.streaming.reply import Delta, Reply

__all__ = ["Delta", "Provider", "Reply", "collect_reply"]


class Provider(Protocol):
    """A connection to one model, which answers requests of one dialect (`wire`).

    `stream` yields deltas for display and the Reply last, exactly once, or raises a ProviderError. The bytes are those
    of `RenderedRequest.to_bytes()` and are sent as they are; a provider adds only transport fields. Closing the
    stream, or cancelling its reader, closes the connection.
    """

    @property
    def model(self) -> str: ...
    @property
    def wire(self) -> str: ...
    def stream(self, request: bytes, /) -> AsyncGenerator[Delta | Reply, None]: ...
    async def close(self) -> None: ...


async def collect_reply(provider: Provider, request: bytes) -> Reply:
    """Read the stream to its end and return the reply, for callers that display nothing meanwhile."""
    async with aclosing(provider.stream(request)) as stream:
        async for each in stream:
            if isinstance(each, Reply):
                return each
    raise transport_error("The stream ended without an answer.")
