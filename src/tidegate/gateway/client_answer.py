"""The answer of the gateway to a client: passed on from the upstream, or its own."""

import aiohttp
import msgspec

from tidegate.gateway.http_body import RawHeaders, Send


class GatewayRefusal(Exception):
    """The request was answered by the gateway itself."""

    def __init__(self, status: int, kind: str, text: str) -> None:
        super().__init__(text)
        self.status, self.kind, self.text = status, kind, text


class OwnPage(Exception):
    """A page of the gateway itself: whether it runs, and its metrics."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.text = text


class OpenResponse:
    """Closes the answer of an upstream at the end, also if the client is gone."""

    def __init__(self, response: aiohttp.ClientResponse) -> None:
        self._response = response

    async def __aenter__(self) -> aiohttp.ClientResponse:
        return self._response

    async def __aexit__(self, *_: object) -> None:
        self._response.close()


class ClientAnswer:
    """The answer to the client. `status` is 0 until something was sent."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self.status = 0
        self.sent = 0
        self.is_broken = False

    async def start(self, status: int, headers: RawHeaders) -> None:
        self.status = status
        await self._send({"type": "http.response.start", "status": status, "headers": headers})

    async def send_piece(self, piece: bytes) -> None:
        if piece:
            self.sent += len(piece)
            await self._send({"type": "http.response.body", "body": piece, "more_body": True})

    async def finish(self) -> None:
        """End the answer. One that broke off is not ended properly: the client must notice."""
        if self.is_broken:
            raise ConnectionResetError("the upstream's answer broke off")
        await self._send({"type": "http.response.body", "body": b""})

    async def send_whole(self, status: int, headers: RawHeaders, body: bytes) -> None:
        await self.start(status, [*headers, (b"content-length", str(len(body)).encode())])
        self.sent += len(body)
        await self._send({"type": "http.response.body", "body": body})

    async def send_json(self, status: int, value: object) -> None:
        if self.status:
            raise ConnectionResetError("the answer broke off")
        await self.send_whole(status, [(b"content-type", b"application/json")], msgspec.json.encode(value))
