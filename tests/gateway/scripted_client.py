"""A client that keeps its own list of messages and sends all of it every time, as agents do."""

import json
from typing import Any

import httpx

from tests.fake.server import KEY, Json
from tidegate.core.messages import Call
from tidegate.wire.streaming.scripted_answer import ScriptedAnswer

PATHS = {
    "anthropic": "/v1/messages",
    "openai_chat": "/v1/chat/completions",
    "openai_responses": "/v1/responses",
    "gemini": "/v1beta/models/gemini-2.5-pro:generateContent",
}
SCHEMA = {"type": "object", "properties": {"n": {"type": "integer"}}}


def headers_of(wire: str, **more: str) -> dict[str, str]:
    key = {"anthropic": ("x-api-key", KEY), "gemini": ("x-goog-api-key", KEY)}.get(
        wire, ("authorization", f"Bearer {KEY}")
    )
    return {key[0]: key[1], "content-type": "application/json", **more}


class ScriptedClient:
    """A client of one dialect that keeps its own list of messages, as agents do, and sends all of it every time."""

    def __init__(
        self, wire: str, url: str, http: httpx.AsyncClient, ids: dict[str, str] | None = None, *, thinking: bool = False
    ) -> None:
        self.wire, self.url, self.http, self.headers = wire, url, http, headers_of(wire, **(ids or {}))
        self.messages: list[Json] = []
        self.model = "claude-opus-5-5"
        self.thinking: Json | None = {"type": "adaptive"} if thinking else None
        self.sent: list[bytes] = []

    def say(self, text: str) -> None:
        if self.wire == "gemini":
            self.messages.append({"role": "user", "parts": [{"text": text}]})
        else:
            self.messages.append({"role": "user", "content": text})

    def body(self) -> Json:
        if self.wire == "gemini":
            tools: list[Json] = [{"functionDeclarations": [{"name": "step", "parametersJsonSchema": SCHEMA}]}]
            return {"contents": self.messages, "tools": tools}
        if self.wire == "openai_chat":
            tools = [{"type": "function", "function": {"name": "step", "parameters": SCHEMA}}]
            return {"model": "gpt-4o", "messages": self.messages, "tools": tools}
        if self.wire == "openai_responses":
            tools = [{"type": "function", "name": "step", "parameters": SCHEMA}]
            return {"model": "gpt-4o", "input": self.messages, "tools": tools, "store": False}
        found: Json = {"model": self.model, "max_tokens": 30_000, "messages": self.messages}
        found["tools"] = [{"name": "step", "input_schema": SCHEMA}]
        return found | ({"thinking": self.thinking} if self.thinking else {})

    async def ask(self, path: str = "", **more: Any) -> httpx.Response:
        raw = json.dumps(self.body() | more, ensure_ascii=False, separators=(",\n ", ": ")).encode()
        self.sent.append(raw)
        return await self.http.post(self.url + (path or PATHS[self.wire]), content=raw, headers=self.headers)

    async def turn(self, result: str = "") -> list[str]:
        """Ask, keep the answer, and answer its calls with a result. The names of the calls."""
        response = await self.ask()
        assert response.status_code == 200, response.text
        return self.keep(response.json(), result)

    def keep(self, answer: Json, result: str = "") -> list[str]:
        """Keep an answer, and answer its calls. The names of the calls."""
        if self.wire == "anthropic":
            self.messages.append({"role": "assistant", "content": answer["content"]})
            calls = [block["id"] for block in answer["content"] if block["type"] == "tool_use"]
            results = [{"type": "tool_result", "tool_use_id": ident, "content": result} for ident in calls]
            self.messages += [{"role": "user", "content": results}] if results else []
        elif self.wire == "openai_chat":
            message = answer["choices"][0]["message"]
            self.messages.append(message)
            calls = [call["id"] for call in message.get("tool_calls") or []]
            self.messages += [{"role": "tool", "tool_call_id": ident, "content": result} for ident in calls]
        elif self.wire == "openai_responses":
            self.messages += [{key: item[key] for key in item if key != "id"} for item in answer["output"]]
            calls = [item["call_id"] for item in answer["output"] if item["type"] == "function_call"]
            self.messages += [{"type": "function_call_output", "call_id": ident, "output": result} for ident in calls]
        else:
            content = answer["candidates"][0]["content"]
            self.messages.append(content)
            calls = [part["functionCall"]["name"] for part in content["parts"] if "functionCall" in part]
            results = [{"functionResponse": {"name": name, "response": {"output": result}}} for name in calls]
            self.messages += [{"role": "user", "parts": results}] if results else []
        return calls


def recall_call(number: int, what: str) -> Call:
    return Call(f"recall{number}", "recall", json.dumps({"what": what}))


def step_answer(number: int, thinking: bool = False) -> ScriptedAnswer:
    more: Json = {"thinking": f"Thought {number}.", "signature": f"sig{number}"} if thinking else {}
    return ScriptedAnswer(text=f"Step {number}.", calls=(Call(f"call{number}", "step", f'{{"n":{number}}}'),), **more)
