"""A small MCP server on stdio without the SDK, which alone takes a second to import: `python plain_mcp_server.py`."""

import json
import os
import sys
import time
from collections.abc import Callable
from typing import Any, NamedTuple

Json = dict[str, Any]


class PlainTool(NamedTuple):
    """A tool: its description, the JSON schemas of its arguments, and a function that returns a text."""

    description: str
    properties: dict[str, Json]
    run: Callable[..., str]


def serve(tools: dict[str, PlainTool]) -> None:
    """Answer requests until the input is closed."""
    for line in sys.stdin.buffer:
        request = json.loads(line)
        if "id" not in request or "method" not in request:
            continue
        result = _answer(tools, request["method"], request.get("params") or {})
        body = {"error": {"code": -32601, "message": "Method not found"}} if result is None else {"result": result}
        sys.stdout.write(json.dumps({"jsonrpc": "2.0", "id": request["id"], **body}) + "\n")
        sys.stdout.flush()


def _answer(tools: dict[str, PlainTool], method: str, params: Json) -> Json | None:
    match method:
        case "initialize":
            server = {"name": "plain", "version": "1"}
            return {"protocolVersion": params["protocolVersion"], "capabilities": {}, "serverInfo": server}
        case "tools/list":
            return {"tools": [_describe(name, tool) for name, tool in tools.items()]}
        case "tools/call":
            text = tools[params["name"]].run(**params.get("arguments") or {})
            return {"content": [{"type": "text", "text": text}]}
    return None


def _describe(name: str, tool: PlainTool) -> Json:
    required = [key for key, schema in tool.properties.items() if "default" not in schema]
    schema = {"type": "object", "properties": tool.properties, "required": required}
    return {"name": name, "description": tool.description, "inputSchema": schema}


def _die() -> str:
    os._exit(3)


def _wait() -> str:
    time.sleep(600)
    return "done"


NUMBER: Json = {"type": "integer"}

if __name__ == "__main__":
    serve(
        {
            "add": PlainTool("Add two numbers.", {"a": NUMBER, "b": NUMBER}, lambda a, b: str(a + b)),
            "die": PlainTool("Ends the server in the middle of the call.", {}, _die),
            "slow": PlainTool("Takes its time.", {}, _wait),
        }
    )
