"""The answer of the gateway to a client: passed on from the upstream, or its own."""

import msgspec

from tidegate.gateway.http_body import RawHeaders, Send


class GatewayRefusal(Exception):
    """The request was answered by the gateway itself."""

    def __init__(self, status: int, kind: str, text: str) -> None:
        super().__init__(text)
        self.status, self.kind, self.text = status, kind, text


class OwnAnswer(Exception):
    """The gateway answers the request itself, and not with a refusal: whether it runs, its metrics, a preflight."""

    def __init__(self, status: int, headers: RawHeaders, body: bytes = b"") -> None:
        super().__init__(status)
        self.status, self.headers, self.body = status, headers, body


class AnswerBrokeOff(ConnectionResetError):
    """An answer that has begun cannot be ended properly. The server closes the connection, so that the client notices.

    `server_log` keeps it off the terminal: the line of the request says that the answer broke off.
    """


class ClientAnswer:
    """The answer to the client. `status` is 0 until something was sent. `own_headers` go with every answer."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self.status = 0
        self.sent = 0
        self.is_broken = False
        self.own_headers: RawHeaders = []
        self._held: list[bytes] = []

    async def start(self, status: int, headers: RawHeaders) -> None:
        self.status = status
        await self._send({"type": "http.response.start", "status": status, "headers": [*headers, *self.own_headers]})

    async def send_piece(self, piece: bytes, *, waits: bool = False) -> None:
        """Send a piece. One that `waits` is sent with the next one, or with the end: each send wakes up the client."""
        if waits:
            self._held.append(piece)
            return
        piece = self.take_held() + piece
        if piece:
            self.sent += len(piece)
            await self._send({"type": "http.response.body", "body": piece, "more_body": True})

    def take_held(self) -> bytes:
        """The pieces that wait. They are not sent any more."""
        held = b"".join(self._held)
        self._held.clear()
        return held

    async def finish(self, last: bytes = b"") -> None:
        """End the answer with this piece. One that broke off is not ended properly: the client must notice."""
        if self.is_broken:
            await self.send_piece(last)
            raise AnswerBrokeOff("the upstream's answer broke off")
        self.sent += len(last)
        await self._send({"type": "http.response.body", "body": last})

    async def send_whole(self, status: int, headers: RawHeaders, body: bytes) -> None:
        await self.start(status, [*headers, (b"content-length", str(len(body)).encode())])
        self.sent += len(body)
        await self._send({"type": "http.response.body", "body": body})

    async def send_json(self, status: int, value: object) -> None:
        if self.status:
            raise AnswerBrokeOff("the answer broke off")
        await self.send_whole(status, [(b"content-type", b"application/json")], msgspec.json.encode(value))
