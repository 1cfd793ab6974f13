"""Histories that went wrong somewhere: one of each kind, for every dialect."""

import base64
import struct
import zlib
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from tidegate.core.messages import TOOL_RESULT, Call, Image, Message, Part, Result, Text, Thinking, Tool

SIGNED = '{"type":"thinking","thinking":"Let me see: 1 < 2 \\u00e9 \U0001f600","signature":"EqQBCgIYAhIM+/=="}'
REDACTED = '{"type":"redacted_thinking","data":"EmwKAhgBEgy3va3pzix/LafPsn4a"}'
REASONING = (
    '{"id":"rs_1","type":"reasoning","summary":[{"type":"summary_text","text":"thinking"}],'
    '"encrypted_content":"gAAAAABo+/=","status":"completed"}'
)
SIGNATURE = "CiQB0e2Kb9yQ+/=="


def png(width: int, height: int) -> str:
    """A true picture, grey, in base64."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    rows = zlib.compress(b"".join(b"\0" + b"\x7f" * width for _ in range(height)))
    data = b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", rows) + chunk(b"IEND", b"")
    return base64.b64encode(data).decode()


PICTURE = Image(data=png(8, 6), width=8, height=6)


@dataclass
class Seen:
    message: Message
    tokens: int = 0
    signed: bool = True
    birth: str = ""


@dataclass
class FakeView:
    """A view as the renderer sees one."""

    items: list[Seen] = field(default_factory=list)
    prefix_seq: int = 0
    system: str = "You are a careful engineer."
    tools: tuple[Tool, ...] = ()
    rejected_seq: int = 0


class History(NamedTuple):
    name: str
    messages: tuple[Message, ...]
    signed: bool = True


def said(text: str) -> Message:
    return Message("user", (Text(text),))


def told(*parts: Part | str, origin: str = "openai_chat") -> Message:
    return Message("assistant", tuple(Text(part) if isinstance(part, str) else part for part in parts), origin=origin)


def gave(call_id: str, *parts: Text | Image | str, error: bool = False) -> Message:
    shown = tuple(Text(part) if isinstance(part, str) else part for part in parts)
    return Message("tool", (Result(call_id, shown, error),), kind=TOOL_RESULT)


def system(text: str) -> Message:
    return Message("system", (Text(text),))


def call(call_id: str, name: str = "read", arguments: str = '{"path": "a.py"}', opaque: str = "") -> Call:
    return Call(call_id, name, arguments, opaque)


def thinking(block: str) -> Thinking:
    return Thinking(block=block)


def _loop(origin: str, *parts: Part | str) -> tuple[Message, ...]:
    """A turn with one call that is under way."""
    return (said("go"), told(*parts, call("call_1"), origin=origin), gave("call_1", "found it"))


_TABLE = (
    History("nothing", ()),
    History("one question", (said("hello"),)),
    History("question and answer", (said("hello"), told("hi"), said("bye"))),
    History("ends with the assistant", (said("hello"), told("hi"))),
    History("starts with the assistant", (told("Welcome."), said("hello"))),
    History("only the assistant", (told("I speak alone."),)),
    History("only system", (system("Be brief."),)),
    History("asks twice", (said("one"), said("two"), told("both"), said("three"))),
    History("answers twice", (said("one"), told("first"), told("second"), said("two"))),
    History(
        "answers twice, then calls",
        (said("one"), told("first"), told("second", call("c2")), gave("c2", "ok"), said("two")),
    ),
    History("system in the middle", (said("one"), told("1"), system("Be brief."), said("two"), system("Now."))),
    History("system between call and result", (said("a"), told(call("c1")), system("Hurry."), gave("c1", "done"))),
    History("one call", (said("a"), told("looking", call("c1")), gave("c1", "done"), told("It is done."), said("b"))),
    History(
        "parallel, out of order",
        (
            said("all"),
            told(call("c1"), call("c2", "grep"), call("c3", "ls")),
            gave("c3", "three"),
            gave("c1", "one"),
            gave("c2", "two"),
            said("and?"),
        ),
    ),
    History("question beside results", (said("a"), told(call("c1")), gave("c1", "done"), said("wait"), said("no"))),
    History("failed call", (said("a"), told(call("c1")), gave("c1", "ENOENT", error=True), told("Gone."), said("b"))),
    History("interrupted at the end", (said("a"), told("looking", call("c1"), call("c2")))),
    History("interrupted halfway", (said("a"), told(call("c1"), call("c2")), gave("c2", "two"), said("stop"))),
    History("interrupted, then goes on", (said("a"), told(call("c1")), told("never mind"), said("b"))),
    History("result without a call", (said("a"), gave("c9", "lost"), told("hm"), said("b"))),
    History("result first", (gave("c9", "lost"), said("a"))),
    History("two results for one call", (said("a"), told(call("c1")), gave("c1", "one"), gave("c1", "again"))),
    History("late result", (said("a"), told(call("c1")), said("well?"), gave("c1", "late"), told("ok"), said("b"))),
    History("same id twice in a message", (said("a"), told(call("x"), call("x")), gave("x", "1st"), gave("x", "2nd"))),
    History(
        "same id in every turn",
        (
            said("a"),
            told(call("run:0")),
            gave("run:0", "one"),
            told(call("run:0")),
            gave("run:0", "two"),
            told(call("run:0"), call("run:0")),
            gave("run:0", "three"),
            gave("run:0", "four"),
        ),
    ),
    History("empty ids", (said("a"), told(call(""), call("")), gave("", "one"), gave("", "two"))),
    History("long ids", (said("a"), told(call("i" * 200), call("j" * 41)), gave("j" * 41, "j"), gave("i" * 200, "i"))),
    History(
        "odd ids",
        (
            said("a"),
            told(call("call_1|fc_2"), call("имя ид"), call("a.b:c/0"), call("\U0001f600")),
            gave("\U0001f600", "four"),
            gave("имя ид", "two"),
            gave("a.b:c/0", "three"),
            gave("call_1|fc_2", "one"),
        ),
    ),
    History(
        "odd tool names",
        (
            said("a"),
            told(
                call("c1", "fs.read"), call("c2", ""), call("c3", "9 lives"), call("c4", "x" * 90), call("c5", "読む")
            ),
            *(gave(f"c{n}", f"result {n}") for n in range(1, 6)),
        ),
    ),
    History(
        "broken arguments",
        (
            said("a"),
            told(
                call("c1", arguments='{"path": "a.p'),
                call("c2", arguments="[1, 2]"),
                call("c3", arguments=""),
                call("c4", arguments='"text"'),
                call("c5", arguments='{"a": "\\ud83d"}'),
                call("c6", arguments='{"a": NaN}'),
                call("c7", arguments="[" * 5000),
                call("c8", arguments='{"a":' * 400 + "1" + "}" * 400),
            ),
            *(gave(f"c{n}", "ok") for n in range(1, 9)),
        ),
    ),
    History("empty texts", (said(""), told(""), said("  \n"), told("", call("c1")), gave("c1", ""), gave("c1", " "))),
    History("empty system and parts", (said("a"), told("b"), system(""), Message("user"), Message("assistant"))),
    History("result without parts", (said("a"), told(call("c1")), gave("c1"), said("b"))),
    History("result with blanks", (said("a"), told(call("c1")), gave("c1", "", "\t", "real", ""), said("b"))),
    History("scripts", (said("日本語のテキスト"), told("שלום 👩‍👩‍👧‍👦 e\u0301"), said("\u202eevil\u0000nul\ufeff"))),
    History("many parts", (Message("user", tuple(Text(f"part {n}") for n in range(40))), told("ok"), said("b"))),
    History("image", (Message("user", (Text("see"), PICTURE, Text("this"))), told("a square"), said("thanks"))),
    History("image alone", (Message("user", (PICTURE,)),)),
    History("image by address", (Message("user", (Image(url="https://example.com/a.png"), Text("what?"))),)),
    History("image without pixels", (Message("user", (Image(),)), told("?"), said("b"))),
    History("image of the assistant", (said("draw"), told("here", PICTURE, origin="gemini"), said("more"))),
    History(
        "images in results",
        (
            said("look"),
            told(call("c1"), call("c2"), call("c3")),
            gave("c2", "a plan", PICTURE, PICTURE),
            gave("c1", PICTURE),
            gave("c3", "no picture"),
            told("I see."),
            said("good"),
        ),
    ),
    History("image in a lost result", (said("a"), gave("c9", PICTURE), told("hm"), said("b"))),
    History("plain thinking", _loop("openai_chat", Thinking("It must be there."), "looking")),
    History("thinking only", (said("a"), told(Thinking("hm")), said("b"), told(thinking(SIGNED), origin="anthropic"))),
    History("signed thinking", _loop("anthropic", thinking(SIGNED), thinking(REDACTED), "looking")),
    History("signed thinking, edited before", _loop("anthropic", thinking(SIGNED), "looking"), signed=False),
    History("thinking cut off", (said("a"), told(thinking(SIGNED), "so", thinking(SIGNED), origin="anthropic"))),
    History("thinking without a signature", _loop("anthropic", thinking('{"type":"thinking","thinking":"x"}'))),
    History("thinking that is no JSON", _loop("anthropic", thinking("{oops"))),
    History(
        "tools of the server",
        (
            said("a"),
            told(
                thinking('{"type":"server_tool_use","id":"s1","name":"web_search","input":{}}'),
                thinking('{"type":"web_search_tool_result","tool_use_id":"s1","content":[]}'),
                "found",
                thinking('{"type":"server_tool_use","id":"s2","name":"web_search","input":{}}'),
                origin="anthropic",
            ),
        ),
    ),
    History(
        "interleaved thinking",
        (
            said("a"),
            told(thinking(SIGNED), call("c1"), origin="anthropic"),
            gave("c1", "one"),
            told(thinking(REDACTED), call("c2"), origin="anthropic"),
            gave("c2", "two"),
        ),
    ),
    History("encrypted reasoning", _loop("openai_responses", thinking(REASONING), "looking", thinking(REASONING))),
    History("encrypted reasoning, edited before", _loop("openai_responses", thinking(REASONING)), signed=False),
    History("a run of reasoning", _loop("openai_responses", thinking(REASONING), thinking(REASONING))),
    History("reasoning in clear", _loop("openai_responses", thinking('{"type":"reasoning","id":"rs_1","summary":[]}'))),
    History("reasoning cut off", (said("a"), told("so", thinking(REASONING), origin="openai_responses"))),
    History(
        "reasoning before its item", (said("a"), told(thinking(REASONING), origin="openai_responses"), *_loop("x")[1:])
    ),
    History(
        "signed call",
        (said("a"), told(Text("x", SIGNATURE), call("c1", opaque=SIGNATURE), call("c2"), origin="gemini")),
    ),
    History(
        "signed call, edited before", (said("a"), told(call("c1", opaque=SIGNATURE), origin="gemini")), signed=False
    ),
    History("signed empty text", (said("a"), told("b", Text("", SIGNATURE), origin="gemini"), said("c"))),
    History(
        "many calls",
        (said("a"), told(*(call(f"c{n}") for n in range(64))), *(gave(f"c{63 - n}", f"r{63 - n}") for n in range(64))),
    ),
    History(
        "from every provider",
        (
            said("a"),
            *_loop("anthropic", thinking(SIGNED))[1:],
            *_loop("openai_responses", thinking(REASONING))[1:],
            told(call("read", opaque=SIGNATURE), origin="gemini"),
            gave("read", "gemini's"),
            *_loop("openai_chat", Thinking("plainly"))[1:],
            told("done"),
            said("and now?"),
        ),
    ),
    History("half pairs", (said("a\ud83d"), told("\ude00b", call("c\ud83d", "read")), gave("c\ud83d", "\udfff"))),
)
HISTORIES = {history.name: history for history in _TABLE}

TOOLS = (
    Tool("read", "Read a file.", '{"type":"object","properties":{"path":{"type":"string"}},"required":["path"]}'),
    Tool("fs.read", "Read.", '{"properties":{}}'),
    Tool("read", "Again."),
)


def view_of(history: History | Iterable[Message], tools: tuple[Tool, ...] = TOOLS, signed: bool = True) -> FakeView:
    messages = history.messages if isinstance(history, History) else tuple(history)
    signed = history.signed if isinstance(history, History) else signed
    numbered = [
        Message(m.role, m.parts, f"m{n}", m.kind, m.agent_visible, m.user_visible, m.origin)
        for n, m in enumerate(messages)
    ]
    return FakeView([Seen(message, 0, signed) for message in numbered], tools=tools)
