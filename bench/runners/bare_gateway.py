"""A gateway that only passes requests on: Starlette and httpx, no log, no reading. The least that one in Python costs.

python bench/runners/bare_gateway.py 18486 http://127.0.0.1:18485
"""

import sys
from collections.abc import AsyncIterator

import httpx
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

PORT, UPSTREAM = int(sys.argv[1]), sys.argv[2]
HTTP = httpx.AsyncClient(timeout=60, limits=httpx.Limits(max_connections=None, max_keepalive_connections=None))


async def pass_on(request: Request) -> Response:
    headers = [(name, value) for name, value in request.headers.items() if name not in ("host", "content-length")]
    body = await request.body()
    forwarded = HTTP.build_request("POST", UPSTREAM + request.url.path, headers=headers, content=body)
    answer = await HTTP.send(forwarded, stream=True)

    async def read_pieces() -> AsyncIterator[bytes]:
        try:
            async for piece in answer.aiter_raw():
                yield piece
        finally:
            await answer.aclose()

    return StreamingResponse(read_pieces(), answer.status_code, media_type=answer.headers.get("content-type"))


async def answer_health(request: Request) -> Response:
    return Response("ok\n")


if __name__ == "__main__":
    routes = [Route("/healthz", answer_health), Route("/v1/messages", pass_on, methods=["POST"])]
    server = Starlette(routes=routes)
    uvicorn.run(server, host="127.0.0.1", port=PORT, log_level="error", access_log=False, timeout_keep_alive=75)
