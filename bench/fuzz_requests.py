"""Requests for `fuzz_gateway.py`: clients of the four dialects that keep a list of messages, and changes at random.

Everything is drawn from one random generator, so a seed gives the same requests. Texts have marks (`k0000002a`), which
the log must have later.
"""

import json
import marshal
import re
from collections.abc import Callable, Iterator, Sequence
from random import Random
from typing import Any

from tidegate.core.messages import Call
from tidegate.core.usage import Usage
from tidegate.wire.answers import encode_response_body, encode_response_frames, encode_sse, read_response
from tidegate.wire.registry import get_dialect
from tidegate.wire.streaming.scripted_answer import ScriptedAnswer

Json = dict[str, Any]
MARK = re.compile(r"k[0-9a-f]{8}")
DIALECTS = ("anthropic", "openai_chat", "openai_responses", "gemini")
MODELS = {"anthropic": "claude-opus-4-6", "gemini": "gemini-2.5-pro"}
PATHS = {"anthropic": "/v1/messages", "openai_chat": "/v1/chat/completions", "openai_responses": "/v1/responses"}
LISTS = {"openai_responses": "input", "gemini": "contents"}
SCHEMA: Json = {"type": "object", "properties": {"n": {"type": "integer"}, "path": {"type": "string"}}}
PICTURE = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
WORDS = (
    "the tide harbor page value error test line file must never always use value=42 src/app.py 3.5 água 港 🌊".split()
)
ODD_VALUES: tuple[Any, ...] = (
    None, True, False, 0, -1, 1.5, 10**18, "", " ", "x", "user", "assistant", "system", "tool", "\x00\x1f", "\ud800",
    "💥" * 50, "a" * 5000, [], {}, [[]], [None], {"type": "text"}, {"type": "text", "text": "x"}, {"": {}},
    {"type": "unknown", "x": [1, {"y": None}]}, {"role": "user", "content": "x"},
    {"cache_control": {"type": "ephemeral"}},
)  # fmt: skip


GREETINGS = ("hi", "Please help me with this project.")
"""First messages that several clients send: their conversations must stay apart all the same."""


class ClientState:
    """A client of one dialect: its list of messages, always as a real client would send it.

    `marks` are those of its texts and of the answers to it. No other may ever be in its requests. `text_sizes` are the
    words of its texts. With `thinks` it asks for thinking, and sends it back.
    """

    def __init__(
        self,
        dialect: str,
        random: Random,
        make_mark: Callable[[], str],
        name: str,
        *,
        model: str = "",
        text_sizes: Sequence[int] = (1, 5, 5, 30, 30, 300, 800),
        thinks: bool = False,
    ) -> None:
        self.dialect, self.random, self._make_mark, self.name = dialect, random, make_mark, name
        self.model = model or MODELS.get(dialect, "gpt-4o")
        self.text_sizes, self.thinks = text_sizes, thinks
        is_adaptive = thinks and model.startswith("claude-opus") and random.random() < 0.5
        self._thinking_option = {"type": "adaptive"} if is_adaptive else {"type": "enabled", "budget_tokens": 1024}
        self.has_id = random.random() < 0.7
        self.marks: set[str] = set()
        self.messages: list[Json] = []
        self.system = f"You are helpful. {self.text(random.choice((5, 200)))}" if random.random() < 0.7 else ""
        self.tools = [f"step{number}" for number in range(random.randrange(4))]
        self.calls: list[Json] = []

    def text(self, words: int) -> str:
        """Words with marks, one at the start and one at the end."""
        drawn, first, last = " ".join(self.random.choices(WORDS, k=words)), self._make_mark(), self._make_mark()
        self.marks |= {first, last}
        return f"{first} {drawn} {last}"

    def draw_text(self) -> str:
        return self.text(self.random.choice(self.text_sizes))

    def greet(self) -> None:
        """The first message: one that others send as well, or words of its own."""
        self.say()
        if self.random.random() < 0.3:
            text = self.random.choice(GREETINGS)
            key = "parts" if self.dialect == "gemini" else "content"
            self.messages[-1][key] = [{"text": text}] if self.dialect == "gemini" else text
            self.system = "You are helpful." if self.system else ""

    @property
    def list_name(self) -> str:
        return LISTS.get(self.dialect, "messages")

    def say(self) -> None:
        """The results of open calls, or else words of the user."""
        results, self.calls = [(call, self.draw_text()) for call in self.calls], []
        if self.dialect == "anthropic":
            blocks = [{"type": "tool_result", "tool_use_id": call["id"], "content": text} for call, text in results]
            self.messages.append({"role": "user", "content": blocks or self._user_content()})
        elif self.dialect == "openai_chat":
            self.messages += [{"role": "tool", "tool_call_id": call["id"], "content": text} for call, text in results]
        elif self.dialect == "openai_responses":
            self.messages += [
                {"type": "function_call_output", "call_id": call["call_id"], "output": text} for call, text in results
            ]
        else:
            parts: list[Json] = [
                {"functionResponse": {"name": call["name"], "response": {"output": text}}} for call, text in results
            ]
            self.messages.append({"role": "user", "parts": parts or self._user_content()})
        if not results and self.dialect.startswith("openai"):
            self.messages.append({"role": "user", "content": self._user_content()})

    def _user_content(self) -> Any:
        text, kind = self.draw_text(), self.random.random()
        if self.dialect == "gemini":
            image = [{"inlineData": {"mimeType": "image/png", "data": PICTURE}}] if kind < 0.1 else []
            return [{"text": text}, *image]
        if kind < 0.6:
            return text
        block_type = {"openai_responses": "input_text"}.get(self.dialect, "text")
        blocks: list[Json] = [{"type": block_type, "text": text}]
        if kind < 0.7:
            blocks.append(self._image())
        return blocks

    def _image(self) -> Json:
        url = f"data:image/png;base64,{PICTURE}"
        if self.dialect == "anthropic":
            return {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PICTURE}}
        if self.dialect == "openai_chat":
            return {"type": "image_url", "image_url": {"url": url}}
        return {"type": "input_image", "image_url": url}

    def keep(self, body: Json) -> None:
        """Keep an answer, and its calls to be answered."""
        answer = get_dialect(self.dialect).to_client_messages(read_response(self.dialect, body).messages)
        if self.dialect == "openai_responses":
            answer = [{key: value for key, value in item.items() if key != "id"} for item in answer]
        self.messages += answer
        for item in answer:
            listed = item.get("content") if self.dialect == "anthropic" else item.get("parts", item.get("tool_calls"))
            for each in [item, *(listed if isinstance(listed, list) else [])]:
                call = each.get("functionCall", each) if isinstance(each, dict) else {}
                if each.get("type") in ("tool_use", "function", "function_call") or "functionCall" in each:
                    self.calls.append(call)

    @property
    def must_think(self) -> bool:
        """Whether each answer has thinking, as models of Anthropic's have it unless they decide themselves."""
        return self.dialect == "anthropic" and self._thinking_option["type"] == "enabled"

    @property
    def ends_with_user(self) -> bool:
        last = self.messages[-1]
        return last.get("role") in ("user", "tool") or last.get("type") == "function_call_output"

    def make_body(self) -> Json:
        body: Json = {self.list_name: self.messages[:]}
        tools: list[Json] = [{"name": name, "description": "a tool"} for name in self.tools]
        if self.dialect == "gemini":
            body |= {"systemInstruction": {"parts": [{"text": self.system}]}} if self.system else {}
            declared = [{**tool, "parametersJsonSchema": SCHEMA} for tool in tools]
            return body | ({"tools": [{"functionDeclarations": declared}]} if tools else {})
        body["model"] = self.model
        if self.dialect == "anthropic":
            body |= {"thinking": self._thinking_option} if self.thinks else {}
            body |= {"max_tokens": 3000} | ({"system": self.system} if self.system else {})
            return body | ({"tools": [{**tool, "input_schema": SCHEMA} for tool in tools]} if tools else {})
        if self.dialect == "openai_chat":
            if self.system:
                body["messages"].insert(0, {"role": "system", "content": self.system})
            listed = [{"type": "function", "function": {**tool, "parameters": SCHEMA}} for tool in tools]
            return body | ({"tools": listed} if tools else {})
        body |= {"store": False} | ({"instructions": self.system} if self.system else {})
        return body | (
            {"tools": [{"type": "function", **tool, "parameters": SCHEMA} for tool in tools]} if tools else {}
        )

    def change(self) -> None:
        """What users and clients do with a conversation: go back, change a text, a tool or the system prompt."""
        starts = [n for n, each in enumerate(self.messages) if each.get("role") == "user" and not _has_results(each)]
        act = self.random.randrange(5)
        if act == 0 and len(starts) > 1:
            del self.messages[self.random.choice(starts[1:]) :]
            self.calls = []
        elif act == 1 and len(starts) > 1:
            place = self.random.choice(starts)
            key = "parts" if self.dialect == "gemini" else "content"
            self.messages[place] = {**self.messages[place], key: self._user_content()}
        elif act == 2:
            self.system = self.draw_text()
        elif act == 3:
            self.tools.append(f"more{len(self.tools)}")


def _has_results(message: Json) -> bool:
    text = json.dumps(message)
    return '"tool_result"' in text or '"functionResponse"' in text


# --- answers ------------------------------------------------------------------------------------------------------


def draw_answer(client: ClientState, tools: list[str], number: int, size: int) -> ScriptedAnswer:
    """What the model says. `tools` are those of the request that arrived, `recall` included; `size` is its bytes."""
    random = client.random
    calls = []
    for place in range(random.choice((0, 0, 1, 1, 2, 3)) if tools else 0):
        name = random.choice(tools)
        arguments = (
            {"what": f"m{random.randrange(2, 30)}"} if name == "recall" else {"n": number, "path": client.text(1)}
        )
        calls.append(Call(f"call_{number}_{place}", name, json.dumps(arguments)))
    text = client.text(random.choice((1, 10, 100))) if not calls or random.random() < 0.7 else ""
    thinks = client.thinks and (client.must_think or random.random() < 0.7)
    thinking = client.text(random.choice((1, 10, 30))) if thinks else ""
    return ScriptedAnswer(
        text=text,
        calls=tuple(calls),
        thinking=thinking,
        signature=f"signature{number}" if thinking else "",
        usage=Usage(1 + int(size * random.uniform(0.2, 0.4)), 50, 0, 0),
        number=number,
    )


def encode_answer(client: ClientState, answer: ScriptedAnswer, *, is_stream: bool, is_odd: bool) -> bytes:
    """The bytes of an answer. An `odd` one has changes at random, or is cut."""
    if not is_stream:
        body: Any = encode_response_body(client.dialect, answer)
        return json.dumps(mutate(body, client.random) if is_odd else body).encode()
    frames = encode_response_frames(client.dialect, answer)
    if is_odd:
        place = client.random.randrange(len(frames))
        frames[place : place + 1] = client.random.choice(
            ([mutate(frames[place], client.random)], [], frames[place : place + 1] * 2)
        )
    try:
        stream = encode_sse(client.dialect, [frame for frame in frames if isinstance(frame, dict)])
    except UnicodeEncodeError:  # half of a pair of surrogates, which no stream can have
        return encode_answer(client, answer, is_stream=is_stream, is_odd=is_odd)
    return stream[: client.random.randrange(len(stream) + 1)] if is_odd and client.random.random() < 0.2 else stream


# --- changes at random --------------------------------------------------------------------------------------------


def _list_places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Every container in a JSON value with each of its keys."""
    waiting = [value]
    while waiting:
        each = waiting.pop()
        if isinstance(each, dict | list):
            for key in each if isinstance(each, dict) else range(len(each)):
                yield each, key
                waiting.append(each[key])


def copy_json(value: Any) -> Any:
    return marshal.loads(marshal.dumps(value))  # unlike JSON, it knows half a pair of surrogates


def mutate(value: Any, random: Random) -> Any:
    """A copy with one to three changes: values removed, repeated, exchanged, replaced or added."""
    copy = copy_json(value)
    for _ in range(random.randrange(1, 4)):
        places = list(_list_places(copy))
        if not places:
            return copy
        holder, key = random.choice(places)
        act = random.randrange(6)
        if act == 0:
            del holder[key]
        elif act == 1:
            holder[key] = copy_json(random.choice(ODD_VALUES))
        elif act == 2:
            other, place = random.choice(places)
            holder[key] = copy_json(other[place]) if place in other or isinstance(other, list) else None
        elif act == 3 and isinstance(holder, list):
            holder.insert(random.randrange(len(holder) + 1), copy_json(holder[key]))
        elif act == 4 and isinstance(holder, list):
            random.shuffle(holder)
        elif isinstance(holder, dict):
            holder[random.choice(("x", "type", "role", "content", "name", "id", "cache_control"))] = copy_json(
                random.choice(ODD_VALUES)
            )
    return copy


def write_json(value: Any, random: Random) -> bytes:
    """JSON in one of the ways in which clients write it: spaces, escapes and the order of keys differ."""
    way = random.randrange(6)
    if way == 0:
        text = json.dumps(value, indent=random.choice((1, 2, "\t")))
    elif way == 1:
        text = json.dumps(value, separators=(",", ":"))
    elif way == 2:
        text = json.dumps(value, sort_keys=isinstance(value, dict) and all(isinstance(key, str) for key in value))
    elif way == 3:
        text = re.sub(r'(?<!\\)": ', '"  :\r\n ', json.dumps(value).replace("/", "\\/"))
    elif way == 4:
        text = "\n " + json.dumps(dict(reversed(value.items())) if isinstance(value, dict) else value) + " \n"
    else:
        text = json.dumps(value, ensure_ascii=False)
    return text.encode("utf-8", "surrogatepass") if way == 5 else text.encode()
