"""An MCP server that misbehaves, without the SDK: `python hostile_server.py [http] [LISTING]`.

The name of a tool says what happens when it is called; `fine` answers. LISTING says what is wrong with the list of
tools. Over HTTP the first line of the output is the port.
"""

import itertools
import json
import os
import sys
import time
import zlib
from collections.abc import Iterable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

MB = 1 << 20
TOOLS = "fine deaf line values notifications noise requests chatter pattern half packed events".split()
PATTERN = {"type": "object", "properties": {"text": {"type": "string", "pattern": "^(a+)+$"}}}
"""Takes for ever on a text of a's that ends with something else."""


def listing(kind: str, page: int) -> dict[str, Any]:
    tools: list[dict[str, Any]] = [{"name": name, "inputSchema": {"type": "object"}} for name in TOOLS]
    tools[TOOLS.index("pattern")]["outputSchema"] = PATTERN
    if kind == "many":
        tools += [{"name": f"tool{number}", "inputSchema": {"type": "object"}} for number in range(300)]
    elif kind == "endless":
        tools = [{"name": f"tool{page}", "inputSchema": {"type": "object"}}]
        return {"tools": tools, "nextCursor": str(page + 1)}
    elif kind == "wordy":
        deep: dict[str, Any] = {"type": "object"}
        for _ in range(60):
            deep = {"type": "object", "properties": {"inner": deep, "x" * 400: {"type": "string"}}}
        tools += [
            {"name": "n" * 1000, "inputSchema": {"type": "object"}},
            {"name": "described", "description": "d" * MB, "inputSchema": {"type": "object"}},
            {"name": "schemed", "inputSchema": deep},
        ]
    elif kind == "invalid":
        schemas: list[object] = [
            {"type": "string"},
            {"type": "object", "properties": 5},
            {"type": "object", "oneOf": []},
        ]
        tools = [{"name": f"tool{number}", "inputSchema": each} for number, each in enumerate(schemas)]
    elif kind == "flood":
        tools = [{"name": f"tool{number}", "inputSchema": {"type": "object"}} for number in range(20_000)]
    return {"tools": tools}


def misbehave(name: str, ident: object) -> Iterator[bytes]:
    """What is written for a call, piece by piece."""
    start = b'{"jsonrpc":"2.0","id":%s,"result":{"content":[{"type":"text","text":"' % json.dumps(ident).encode()
    notification = b'{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"tide"}}\n'
    end = b'fine"}]}}\n'
    once = {
        "values": start + b'"}],"structuredContent":{"x":[' + b"[]," * 300_000 + b"0]}}}\n",
        "half": start,
        "chatter": b"no json\n" * 2_000 + start + end,  # much, but within the limits, and all at once
        "pattern": start + b'done"}],"structuredContent":{"text":"' + b"a" * 60 + b'!"}}}\n',
    }
    if name == "line":
        yield start
        yield from itertools.repeat(b"x" * MB, 300)
    elif name == "notifications":
        yield from itertools.repeat(notification * 100)
    elif name == "requests":
        yield from itertools.repeat(b'{"jsonrpc":"2.0","id":1,"method":"ping"}\n' * 100)
    elif name == "deaf":  # reads nothing any more
        time.sleep(3600)
    elif name == "noise":
        while True:
            os.write(2, b"tide " * 10_000)
    else:
        yield once.get(name, start + end)


def answer(request: dict[str, Any], kind: str) -> Iterable[bytes]:
    method, params = request.get("method"), request.get("params") or {}
    result: dict[str, Any] | None = None
    if method == "initialize":
        version = params["protocolVersion"]
        result = {"protocolVersion": version, "capabilities": {}, "serverInfo": {"name": "hostile", "version": "1"}}
    elif method == "tools/list":
        result = listing(kind, int(params.get("cursor") or 0))
    elif method == "tools/call":
        return misbehave(params["name"], request["id"])
    elif "id" not in request or "method" not in request:
        return ()
    body = {"result": result} if result is not None else {"error": {"code": -32601, "message": "Method not found"}}
    return [json.dumps({"jsonrpc": "2.0", "id": request["id"], **body}).encode() + b"\n"]


class Web(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    kind = ""

    def do_POST(self) -> None:
        request = json.loads(self.rfile.read(int(self.headers["content-length"])))
        name = (request.get("params") or {}).get("name", "")
        pieces: Iterable[bytes] = answer(request, self.kind)
        self.send_response(200 if "id" in request else 202)
        self.send_header("content-type", "text/event-stream" if name == "events" else "application/json")
        self.send_header("connection", "close")
        if name == "packed":
            self.send_header("content-encoding", "gzip")
            packer = zlib.compressobj(wbits=31)
            pieces = [packer.compress(b"x" * MB * 8), packer.flush()]
        elif name == "events":
            pieces = itertools.repeat(b'data: {"jsonrpc":"2.0","method":"notifications/none"}\n\n')
        self.end_headers()
        try:
            for piece in pieces:
                self.wfile.write(piece)
        except OSError:
            pass
        self.close_connection = True

    def do_GET(self) -> None:
        self.send_response(405)
        self.send_header("content-length", "0")
        self.end_headers()

    def do_DELETE(self) -> None:
        self.do_GET()

    def log_message(self, *_: object) -> None:
        pass


def main(words: list[str]) -> None:
    if words[:1] == ["http"]:
        Web.kind = words[1] if len(words) > 1 else ""
        server = ThreadingHTTPServer(("127.0.0.1", 0), Web)
        print(server.server_address[1], flush=True)
        server.serve_forever()
    for line in sys.stdin.buffer:
        for piece in answer(json.loads(line), words[0] if words else ""):
            sys.stdout.buffer.write(piece)
            sys.stdout.buffer.flush()


if __name__ == "__main__":
    main(sys.argv[1:])
