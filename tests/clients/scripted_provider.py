"""A provider for real clients: Anthropic Messages, OpenAI chat and Responses, Gemini; streamed, with a scripted model.

The model is a function of the request: it answers the newest tool result, so that retries are harmless. It refuses
requests above its window in the provider's own words, and judges every edited request by the wire's validator.
"""

import asyncio
import re
from base64 import b64encode
from collections.abc import Callable, Collection
from contextlib import suppress
from typing import Any, Final, Literal, NamedTuple

import msgspec

from tests.fake.issued_thinking import IssuedThinking, drops_misplaced_thinking
from tidegate.core.messages import Call
from tidegate.core.usage import Usage
from tidegate.models.token_counters import create_counter
from tidegate.wire.answers import encode_response_body, encode_response_frames, encode_sse
from tidegate.wire.request_check import find_request_faults
from tidegate.wire.streaming.scripted_answer import ScriptedAnswer

Json = dict[str, Any]
_STEP_ID: Final = re.compile(r"(?:toolu|call)_(step|recall)_(\d+)|\b(Step) (\d+)\.")
"""The call of a step, or its text: Gemini's clients do not send ids back."""
_SIGNATURE: Final = re.compile(rb'"(?:encrypted_content|thoughtSignature)":"([^"]+)"')
_ACCEPTED_SIGNATURES: Final = frozenset({"skip_thought_signature_validator", "context_engineering_is_the_way_to_go"})
"""Gemini takes these for calls that it did not make; Gemini CLI sends one after it resumed a session."""
_RESULTS: Final = (
    ("tool_use_id", "content"),
    ("tool_call_id", "content"),
    ("call_id", "output"),
    ("id", "response"),
)
"""Where each dialect has the id of a call and its result."""
_SHELLS: Final = ("Bash", "bash", "exec_command", "shell_command", "shell", "local_shell", "run_shell_command")
SIDE_ANSWER: Final = '{"isNewTopic": true, "title": "A task"}'
"""The answer to a request without tools."""
_UNKNOWN_TO_VALIDATORS: Final = frozenset({"SHAPE", "AN1", "AN2", "AN6", "AN9", "OR1", "OR9"})
"""Rules that newer fields and roles of real clients break in their own requests."""


class SeenRequest(NamedTuple):
    path: str
    headers: dict[str, str]
    raw: bytes
    is_side: bool
    tokens: int
    faults: tuple[str, ...] = ()
    """Rules of the provider that the request breaks, with the places."""


class ScriptedProvider:
    """`script(step)` is the shell command of a step, or None for the end. `refuse_at`: these steps are refused once as
    too long. `window` is in tokens, counted on the bytes of the request. At `recall_at` the model recalls the word
    `recalled_word`: in the first of these steps beside its own call, in the others alone. `recalled` has the results.
    `recall_name` is the tool for it; one of the client need not be declared, because Claude Code defers such tools.
    `agents`: Claude Code starts a sub-agent, which starts the next one, so many levels deep. Without `gives_ids`,
    the calls of Gemini have no ids, as those of its older models. `binding`: signed thinking is refused where it is not
    as it was ("block"), and Anthropic's also where what is before it is not ("prefix"); `dropped` has the places of
    blocks that were dropped because the request asked for it.
    """

    def __init__(
        self,
        script: Callable[[int], str | None],
        *,
        window: int | None = None,
        refuse_at: tuple[int, ...] = (),
        recall_at: tuple[int, ...] = (),
        recalled_word: str = "",
        recall_name: str = "recall",
        agents: int = 0,
        gives_ids: bool = True,
        binding: Literal["", "block", "prefix"] = "",
    ) -> None:
        self._binding = binding
        self._issued = IssuedThinking(binds_prefix=binding == "prefix")
        self._signatures: set[str] = set()
        self.dropped: list[str] = []
        self._gives_ids = gives_ids
        self._agents = agents
        self._script = script
        self._recall_at = recall_at
        self._recalled_word = recalled_word
        self._recall_name = recall_name
        self.recalled: dict[str, str] = {}
        self._window = window
        self._refuse_at = set(refuse_at)
        self._count = create_counter("gpt-4o").count_text
        self.bodies: list[bytes] = []
        """Every body that arrived, also of requests that no model answers; none of those that ask for the window."""
        self.seen: list[SeenRequest] = []
        self.refused: list[str] = []
        self.steps: list[int] = []
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> "ScriptedProvider":
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0, limit=2**26)
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._server is not None
        self._server.close()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    @property
    def faults(self) -> list[str]:
        return [fault for seen in self.seen for fault in seen.faults]

    def list_new_faults(self, own: Collection[bytes]) -> list[str]:
        """The faults of edited requests, by rules that the client's own requests do not break."""
        edited = [(seen, fault) for seen in self.seen if seen.raw not in own for fault in seen.faults]
        if not edited:
            return []
        wire = _find_wire(edited[0][0].path)
        model = str(msgspec.json.decode(edited[0][0].raw).get("model", ""))
        known = {fault.rule for raw in own for fault in find_request_faults(wire, raw, model)}
        return [fault for _, fault in edited if fault.partition(":")[0] not in known]

    @property
    def url(self) -> str:
        assert self._server is not None
        return f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            with suppress(ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
                while True:
                    await self._answer_one(reader, writer)
        finally:
            self._tasks.discard(task)
            writer.close()

    async def _answer_one(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        top = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in top[1:] if line)}
        raw = await reader.readexactly(int(headers.get("content-length", "0")))
        path = top[0].split()[1]
        if path.startswith(("/api/", "/props", "/info")):  # local servers have these: this is none of them
            await _send(writer, 404, b'{"error":"not found"}')
            return
        self.bodies += [raw] if raw else []
        wire = _find_wire(path)
        if not wire or not raw or "count_tokens" in path:
            await _send(writer, 200, b'{"data":[],"input_tokens":1,"has_more":false,"models":[]}')
            return
        status, answer, body = self._play(wire, path, headers, raw)
        if status != 200 or not isinstance(answer, ScriptedAnswer):
            await _send(writer, status, msgspec.json.encode(answer))
        elif not body.get("stream") and ":stream" not in path:
            await _send(writer, 200, msgspec.json.encode(encode_response_body(wire, answer)))
        else:
            # Clients join answers that have the same id.
            data = encode_sse(wire, encode_response_frames(wire, answer))
            data = re.sub(rb'"(msg|resp|fc|rs|chatcmpl)[_-]\d+"', rb'"\g<1>_%d"' % len(self.seen), data)
            data = data if self._gives_ids else re.sub(rb',"id":"call_\w+"', b"", data)
            head = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-length: %d\r\n\r\n" % len(data)
            writer.write(head + data)
            await writer.drain()

    def _play(self, wire: str, path: str, headers: dict[str, str], raw: bytes) -> tuple[int, object, Json]:
        body: Json = msgspec.json.decode(raw)
        tools = _tool_schemas(body)
        shell = next((name for name in _SHELLS if name in tools), "")
        tokens = self._count(raw.decode())
        if not shell:
            self.seen.append(SeenRequest(path, headers, raw, True, tokens))
            return 200, ScriptedAnswer(text=SIDE_ANSWER, usage=Usage(tokens, 9, 0, 0)), body
        found = find_request_faults(wire, raw, str(body.get("model", "")))
        faults = tuple(f"{fault.rule}: {fault.text}" for fault in found if fault.rule not in _UNKNOWN_TO_VALIDATORS)
        self.seen.append(SeenRequest(path, headers, raw, False, tokens, faults))
        step = self._find_step(raw)
        self.steps.append(step)
        if (self._window and tokens > self._window) or step in self._refuse_at:
            self._refuse_at.discard(step)
            self.refused.append(f"step {step}: {tokens} tokens")
            return 400, _too_long(wire, tokens, self._window or tokens - 1000), body
        if text := self._judge_thinking(wire, raw, body):
            self.refused.append(f"step {step}: {text}")
            return 400, _refuse(wire, text), body
        usage = Usage(tokens, 20, 0, 0)
        if self._agents:
            return 200, _start_agent(body, self._agents), body
        command = self._script(step)
        thinks = "thinking" in body or "reasoning" in body or b'"thinkingConfig"' in raw
        signature = b64encode(b"signature %d" % len(self.seen)).decode()
        thought: Json = {"thinking": f"Now step {step}.", "signature": signature} if thinks else {}
        thought["model"] = str(body.get("model", ""))  # Claude Code sends back only thinking of the same model
        if command is None:
            answer = ScriptedAnswer(text="All steps are done.", usage=usage, **thought)
        else:
            ident = f"{'toolu' if wire == 'anthropic' else 'call'}_step_{step}"
            call = Call(ident, shell, _arguments(tools[shell], command))
            calls = self._add_recall(step, call, raw, body)
            answer = ScriptedAnswer(text=f"Step {step}.", calls=calls, usage=usage, **thought)
        self._signatures.add(signature)
        if wire == "anthropic" and self._binding:
            content = encode_response_body(wire, answer)["content"]
            assert isinstance(content, list)
            self._issued.issue(body, content)
        return 200, answer, body

    def _judge_thinking(self, wire: str, raw: bytes, body: Json) -> str:
        """What is wrong with the signed thinking of a request; empty if nothing is."""
        if not self._binding:
            return ""
        if wire != "anthropic":
            unknown = {each.decode() for each in _SIGNATURE.findall(raw)} - self._signatures - _ACCEPTED_SIGNATURES
            return f"Invalid thought signature: {min(unknown)[:60]}" if unknown else ""
        if drops_misplaced_thinking(body):
            self.dropped += self._issued.find_dropped(body)
            return ""
        return "".join(fault.text for fault in self._issued.find_faults(body))

    def _add_recall(self, step: int, call: Call, raw: bytes, body: Json) -> tuple[Call, ...]:
        self.recalled |= _find_recalled(body)
        ident = f"toolu_recall_{step}"
        is_there = self._recall_name in (_tool_schemas(body) if self._recall_name == "recall" else raw.decode())
        if step not in self._recall_at or ident in raw.decode() or not is_there:
            return (call,)
        recall = Call(ident, self._recall_name, msgspec.json.encode({"what": self._recalled_word}).decode())
        return (recall, call) if step == self._recall_at[0] else (recall,)

    def _find_step(self, raw: bytes) -> int:
        """The step after the last one that the request shows; a recall that was answered belongs to its own step.

        Ids of calls tell it. Texts, which recalled messages have too, count only where no call is shown.
        """
        found = _STEP_ID.findall(raw.decode())
        steps = [int(by_id) for kind, by_id, _, _ in found if kind == "step"]
        recalls = [int(by_id) for kind, by_id, _, _ in found if kind == "recall"]
        if not steps and not recalls:
            return max((int(by_text) for *_, by_text in found if by_text), default=-1) + 1
        return max([*recalls, max(steps, default=-1) + 1])


def _start_agent(body: Json, depth: int) -> ScriptedAnswer:
    """Start the agent of the next level, or end when that has ended or this is the last."""
    named = re.findall(r"Agent of level (\d+)", str(body["messages"][0]))
    level = int(named[-1]) if named else 0
    ident = f"toolu_agent_{level + 1}"
    if level == depth or f"'tool_use_id': '{ident}'" in str(body["messages"]):
        return ScriptedAnswer(text=f"Level {level}: All steps are done.")
    asked = {
        "description": "the next level",
        "prompt": f"Agent of level {level + 1}: start the next one.",
        "subagent_type": "general-purpose",
        "run_in_background": False,
    }
    return ScriptedAnswer(calls=(Call(ident, "Agent", msgspec.json.encode(asked).decode()),))


def _find_wire(path: str) -> str:
    path = path.partition("?")[0]
    if "/messages" in path:
        return "anthropic"
    if path.endswith("/responses"):
        return "openai_responses"
    if path.endswith("/chat/completions"):
        return "openai_chat"
    return "gemini" if path.endswith(("enerateContent",)) else ""


def _find_recalled(value: object) -> dict[str, str]:
    """The results of recalls in a request, by call."""
    if isinstance(value, list):
        return {key: text for each in value for key, text in _find_recalled(each).items()}
    if not isinstance(value, dict):
        return {}
    for name, key in _RESULTS:
        if key in value and "_recall_" in str(value.get(name)):
            return {str(value[name]): str(value[key])}
    return {key: text for each in value.values() for key, text in _find_recalled(each).items()}


def _tool_schemas(body: Json) -> dict[str, Json]:
    found: dict[str, Json] = {}
    for tool in body.get("tools") or []:
        inner = tool.get("functionDeclarations") or tool.get("tools") or [tool.get("function", tool)]
        for each in inner:
            schema = each.get("input_schema") or each.get("parameters") or each.get("parametersJsonSchema") or {}
            found[str(each.get("name", ""))] = schema
    return found


def _arguments(schema: Json, command: str) -> str:
    properties = schema.get("properties", {})
    if "cmd" in properties:
        return msgspec.json.encode({"cmd": command}).decode()
    as_list = properties.get("command", {}).get("type") == "array"
    value: Json = {"command": ["bash", "-lc", command] if as_list else command}
    if "description" in schema.get("required", []):
        value["description"] = "a step"
    if "is_background" in schema.get("required", []):
        value["is_background"] = False
    return msgspec.json.encode(value).decode()


def _too_long(wire: str, tokens: int, window: int) -> Json:
    if wire == "anthropic":
        return _refuse(wire, f"prompt is too long: {tokens} tokens > {window} maximum")
    if wire == "gemini":
        return _refuse(
            wire, f"The input token count ({tokens}) exceeds the maximum number of tokens allowed ({window})."
        )
    text = "Your input exceeds the context window of this model. Please adjust your input and try again."
    return _refuse(wire, text, "context_length_exceeded")


def _refuse(wire: str, text: str, code: str | None = None) -> Json:
    if wire == "anthropic":
        return {"type": "error", "error": {"type": "invalid_request_error", "message": text}}
    if wire == "gemini":
        return {"error": {"code": 400, "message": text, "status": "INVALID_ARGUMENT"}}
    return {"error": {"message": text, "type": "invalid_request_error", "param": "input", "code": code}}


async def _send(writer: asyncio.StreamWriter, status: int, body: bytes) -> None:
    head = f"HTTP/1.1 {status} X\r\ncontent-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n"
    writer.write(head.encode() + body)
    await writer.drain()
