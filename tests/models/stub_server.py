"""A server that answers by path, for what asks servers what they have loaded."""

import asyncio
import json
from collections.abc import Mapping
from types import TracebackType
from typing import NamedTuple, Self

Answers = Mapping[str, object]


class Seen(NamedTuple):
    method: str
    path: str
    headers: dict[str, str]
    body: bytes


class Stub:
    """Answers a path with JSON, with a text as it is, or with a status, alone or before JSON.

    A path that is not there gets 404, None is never answered, and on b"" it hangs up.
    """

    def __init__(self, answers: Answers) -> None:
        self.answers = answers
        self.seen: list[Seen] = []

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.root = f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.close()
        await self._server.wait_closed()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head, *lines = (await reader.readuntil(b"\r\n\r\n")).decode().splitlines()
            headers = {
                name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines if line)
            }
            method, target, _ = head.split(" ")
            body = await reader.readexactly(int(headers.get("content-length", 0)))
            self.seen.append(Seen(method, target, headers, body))
            path = target.partition("?")[0]
            answer = self.answers.get(path, 404)
            if answer is None:
                await reader.read()
                return
            if answer == b"":
                return
            status, text = (
                answer if isinstance(answer, tuple) else (answer, "{}") if isinstance(answer, int) else (200, answer)
            )
            sent = (text if isinstance(text, str) else json.dumps(text)).encode()
            where = f"location: {self.root}/elsewhere\r\n" if status == 302 else ""
            writer.write(
                f"HTTP/1.1 {status} x\r\n{where}content-length: {len(sent)}\r\nconnection: close\r\n\r\n".encode()
            )
            writer.write(sent)
            await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    @property
    def paths(self) -> list[str]:
        return [f"{each.method} {each.path.partition('?')[0]}" for each in self.seen]


def listing(*entries: Mapping[str, object]) -> Answers:
    return {"/v1/models": {"object": "list", "data": list(entries)}}


def running(*models: Mapping[str, object]) -> Answers:
    return {**listing({"id": "qwen2.5:14b"}, {"id": "llama3.2:latest"}), "/api/ps": {"models": list(models)}}


SHOWN = {
    "parameters": 'stop    "<|im_end|>"\nnum_ctx                        8192',
    "model_info": {"qwen2.context_length": 32_768},
}
