"""Gemini generateContent: for each rule a refused request and the accepted one closest to it."""

from typing import Any

from tests.wire.cases import Body, Case
from tidegate.wire.gemini import validate as check_gemini
from tidegate.wire.validation.faults import STRICT_PROFILE, ValidationProfile

SENTINEL = "skip_thought_signature_validator"


def user(*parts: Any) -> Body:
    return {"role": "user", "parts": list(parts)}


def model(*parts: Any) -> Body:
    return {"role": "model", "parts": list(parts)}


def text(words: str = "hi") -> Body:
    return {"text": words}


def call(name: str = "find", signature: str = "") -> Body:
    part: Body = {"functionCall": {"name": name, "args": {}}}
    return {**part, "thoughtSignature": signature} if signature else part


def response(name: str = "find", body: Any = None) -> Body:
    return {"functionResponse": {"name": name, "response": {"output": "ok"} if body is None else body}}


def picture(size: int) -> Body:
    return {"inlineData": {"mimeType": "image/png", "data": "A" * size}}


def ask(*contents: Any, **head: Any) -> Body:
    return {"contents": list(contents), **head}


def declare(name: str = "find", **more: Any) -> list[Body]:
    return [{"functionDeclarations": [{"name": name, **more}]}]


def row(rule: str, phrase: str, bad: Any, good: Any, **flags: Any) -> Case:
    return Case(
        rule,
        phrase,
        bad,
        good,
        check_gemini.GeminiValidator.validate,
        ValidationProfile(**flags) if flags else STRICT_PROFILE,
    )


U, M = user(text()), model(text())
CALLED = ask(U, model(call()), user(response()))
OPEN = {"type": "object", "properties": {"q": {"type": "object", "additionalProperties": False}}}
PLAIN = {"type": "object", "properties": {"q": {"type": "object"}}}

GEMINI = [
    row("SHAPE", "Invalid value at 'contents[1]'", ask(U, 1), ask(U)),
    row("GE1", "contents is not specified", ask(), ask(U)),
    row("GE1", "must include at least one parts field, which describes the prompt input.", ask(user()), ask(U)),
    row("GE1", "must have one initialized field", ask(user({"thought": True})), ask(U)),
    row("GE1", "empty text parameter", ask(user(text(""))), ask(U, model({**text(""), "thoughtSignature": "s"}), U)),
    row("GE2", "Please use a valid role: user, model.", ask({"role": "function", "parts": [text()]}, U), ask(U)),
    row("GE2", "multiturn requests alternate between user and model", ask(U, U), ask(U, M, U)),
    row("GE2", "multiturn requests ends with a user role or a function response", ask(U, M), CALLED),
    row(
        "GE3",
        "function call turn comes immediately after a user turn or after a function response turn",
        ask(user(text(), call())),
        ask(user(text())),
    ),
    row(
        "GE4",
        "number of function response parts is equal to the number of function call parts",
        ask(U, model(call(), call("b")), user(response())),
        ask(U, model(call(), call("b")), user(response(), response("b"))),
    ),
    row("GE4", "number of function response parts", ask(U, model(call()), U), CALLED),
    row("GE4", "function response turn comes immediately after", ask(U, M, user(response())), CALLED),
    row(
        "GE5",
        "Invalid function name. Must start with a letter or an underscore. Must be alphameric",
        ask(U, tools=declare("1st")),
        ask(U, tools=declare("_1st.a:b-c")),
    ),
    row("GE5", "with a maximum length of 64", ask(U, tools=declare("a" * 65)), ask(U, tools=declare("a" * 64))),
    row("GE5", "function call name: find", ask(U, model(call()), user(response("other"))), CALLED),
    row(
        "GE6",
        "Function call is missing a thought_signature in functionCall parts.",
        CALLED,
        ask(U, model(call(signature="c2ln"), call("b")), user(response(), response("b"))),
        requires_signatures=True,
    ),
    row(
        "GE6", "position 1", CALLED, ask(U, model(call(signature=SENTINEL)), user(response())), requires_signatures=True
    ),
    row("GE6", "missing a thought_signature", CALLED, ask(*CALLED["contents"], M, U), requires_signatures=True),
    row("GE8", 'Invalid JSON payload received. Unknown name "cache"', ask(U, cache=1), ask(U, cachedContent="c")),
    row("GE8", "at 'contents[0].parts[0]': Cannot find field", ask(user({**text(), "type": "text"})), ask(U)),
    row(
        "GE8",
        'Unknown name "additionalProperties"',
        ask(U, tools=declare(parameters=OPEN)),
        ask(U, tools=declare(parametersJsonSchema=OPEN)),
    ),
    row(  # a field may have its name in the protocol, as ADK sends it
        "GE8",
        'Unknown name "parametersSchema"',
        ask(U, tools=declare(parameters_schema=OPEN)),
        ask(U, tools=declare(parameters_json_schema=OPEN)),
    ),
    row(
        "GE1",
        "mimeType and data are required",
        ask(user({"inlineData": {"data": "QUJD"}})),
        ask(user({"inlineData": {"data": "QUJD", "mime_type": "image/png"}})),
    ),
    row("GE8", "google.protobuf.Struct", ask(U, model(call()), user(response(body="ok"))), CALLED),
    row(
        "GE8",
        "Request payload size exceeds the limit: 20971520 bytes",
        lambda: ask(user(*[picture(10_485_760)] * 2)),
        lambda: ask(user(*[picture(10_485_600)] * 2)),
    ),
    row("GE8", "Unknown name", ask(U, tools=declare(parameters=OPEN)), ask(U, tools=declare(parameters=PLAIN))),
    row("OC10", "The input data is not valid json", ask(user(text("\ud83d"))), ask(U)),
]
