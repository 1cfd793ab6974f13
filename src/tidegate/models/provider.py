"""The seam to a model: bytes of a request in, deltas and one reply out."""

from collections.abc import AsyncIterator
from typing import Protocol

from tidegate.models.errors.classification import transport_error
from tidegate.wire.streaming.reply import Delta, Reply

__all__ = ["Delta", "Provider", "Reply", "collect_reply"]


class Provider(Protocol):
    """`stream` gives deltas for the screen and the Reply last, exactly once, or raises a Fault.

    The bytes are those of `Request.to_bytes()` and go out as they are; a provider adds only what belongs to the way
    they travel. Closing the stream, and cancelling whoever reads it, closes the connection.
    """

    @property
    def model(self) -> str: ...
    @property
    def wire(self) -> str: ...
    def stream(self, request: bytes, /) -> AsyncIterator[Delta | Reply]: ...
    async def close(self) -> None: ...


async def collect_reply(provider: Provider, request: bytes) -> Reply:
    """The reply, for those who show nothing meanwhile."""
    stream = provider.stream(request)
    try:
        async for each in stream:
            if isinstance(each, Reply):
                return each
    finally:
        close = getattr(stream, "aclose", None)
        if close is not None:
            await close()
    raise transport_error("The stream ended without an answer.")
