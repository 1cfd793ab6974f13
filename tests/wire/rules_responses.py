"""The Responses form: for each rule a refused request and the accepted one closest to it."""

from typing import Any

from tests.wire.cases import Body, Case
from tidegate.wire.openai_responses import validate as check_openai_responses

USER = {"role": "user", "content": "hi"}


def said(key: str | None = None) -> Body:
    text = [{"type": "output_text", "text": "hello"}]
    return {"type": "message", "role": "assistant", "content": text, **({"id": key} if key else {})}


def call(call_id: str = "call_1", key: str | None = None, arguments: str = "{}") -> Body:
    made = {"type": "function_call", "call_id": call_id, "name": "find", "arguments": arguments}
    return {**made, "id": key} if key else made


def output(call_id: str = "call_1") -> Body:
    return {"type": "function_call_output", "call_id": call_id, "output": "ok"}


def reasoning(key: str = "rs_1", **more: Any) -> Body:
    return {"type": "reasoning", "id": key, "summary": [], **more}


def ask(*items: Any, **head: Any) -> Body:
    return {"model": "m", "input": list(items), **head}


def row(rule: str, phrase: str, bad: Any, good: Any) -> Case:
    return Case(rule, phrase, bad, good, check_openai_responses.ResponsesValidator.validate)


BLOB = {"encrypted_content": "gAAAA"}
BLOBS = ["reasoning.encrypted_content"]
FIT = '{"a":"' + "x" * 1_048_568 + '"}'
NO_FOLLOWER = "Item 'rs_1' of type 'reasoning' was provided without its required following item."
NOT_STORED = "Items are not persisted when `store` is set to false."
DONE = ask(USER, call(), output())

RESPONSES = [
    row("SHAPE", "Invalid 'input': empty array", ask(), ask(USER)),
    row("OR1", "No tool output found for function call call_1", ask(USER, call()), DONE),
    row(
        "OR1",
        "No tool output found for function call call_2",
        ask(USER, call(), call("call_2"), output(), said(), USER),
        ask(USER, call(), call("call_2"), output("call_2"), output(), said(), USER),
    ),
    row("OR2", "No tool call found for function call output with call_id call_1", ask(USER, output()), DONE),
    row("OR2", "with call_id call_1", ask(USER, output()), ask(output(), previous_response_id="resp_1")),
    row(
        "OR2",
        "Duplicate item found with id fc_1",
        ask(call(key="fc_1"), output(), previous_response_id="resp_1"),
        ask(output(), previous_response_id="resp_1"),
    ),
    row("OR3", NO_FOLLOWER, ask(USER, reasoning(), USER), ask(USER, reasoning(), said(), USER)),
    row("OR3", NO_FOLLOWER, ask(USER, reasoning()), ask(USER, reasoning(), call(), output())),
    row(
        "OR4",
        "Item 'msg_1' of type 'message' was provided without its required preceding item of type 'reasoning'",
        ask(USER, said("msg_1"), USER, reasoning={"effort": "low"}),
        ask(USER, said(), USER, reasoning={"effort": "low"}),
    ),
    row(
        "OR4",
        "Item 'fc_2' of type 'function_call' was provided without its required 'reasoning' item",
        ask(USER, reasoning(), call(key="fc_1"), output(), call("call_2", "fc_2"), output("call_2")),
        ask(USER, reasoning(), call(key="fc_1"), call("call_2", "fc_2"), output(), output("call_2")),
    ),
    row(
        "OR5",
        f"Item with id 'rs_1' not found. {NOT_STORED}",
        ask(USER, reasoning(), said(), USER, store=False),
        ask(USER, reasoning(**BLOB), said(), USER, store=False),
    ),
    row(
        "OR5",
        NOT_STORED,
        ask({"type": "item_reference", "id": "msg_1"}, USER, store=False),
        ask({"type": "item_reference", "id": "msg_1"}, USER),
    ),
    row(
        "OR5",
        NOT_STORED,
        ask(USER, store=False, reasoning={"effort": "low"}),
        ask(USER, store=False, reasoning={"effort": "low"}, include=BLOBS),
    ),
    row(
        "OR6",
        "Duplicate item found with id msg_1",
        ask(USER, said("msg_1"), USER, said("msg_1"), USER),
        ask(USER, said("msg_1"), USER, said("msg_2"), USER),
    ),
    row(
        "OR6",
        "Expected an ID that begins with 'fc'",
        ask(USER, call(key="call_1"), output()),
        ask(USER, call(key="fc_1"), output()),
    ),
    row(
        "OR6",
        "Invalid 'input[1].call_id': string too long. Expected a string with maximum length 64",
        ask(USER, call("c" * 65), output("c" * 65)),
        ask(USER, call("c" * 64), output("c" * 64)),
    ),
    row(
        "OR7",
        "Input[1] missing required field `summary`",
        ask(USER, {"type": "reasoning", "id": "rs_1"}, said(), USER),
        ask(USER, reasoning(), said(), USER),
    ),
    row(
        "OR7",
        "Unknown parameter: 'input[1].status'.",
        ask(USER, reasoning(status=None), said(), USER),
        ask(USER, reasoning(), said(), USER),
    ),
    row(
        "OR7",
        "array too long. Expected an array with maximum length 0",
        ask(USER, reasoning(content=[{"type": "reasoning_text", "text": "hm"}]), said(), USER),
        ask(USER, reasoning(content=[]), said(), USER),
    ),
    row(
        "OR9",
        "Invalid 'input[1].arguments': string too long",
        ask(USER, call(arguments=FIT + " "), output()),
        ask(USER, call(arguments=FIT), output()),
    ),
    row(
        "OR10",
        NO_FOLLOWER,
        ask(USER, reasoning(), reasoning("rs_2"), said(), USER),
        ask(USER, reasoning("rs_2"), said(), USER),
    ),
    row(
        "OR12",
        "Missing required parameter: 'input[0].encrypted_content'",
        ask({"type": "compaction", "id": "cmp_1"}, USER),
        ask({"type": "compaction", "id": "cmp_1", **BLOB}, USER),
    ),
    row(
        "OC5",
        "Invalid 'tools[0].name'",
        ask(USER, tools=[{"type": "function", "name": "a b"}]),
        ask(USER, tools=[{"type": "function", "name": "ab"}]),
    ),
    row(
        "OC8",
        "'input_text'. Supported values are: 'output_text'",
        ask(USER, said() | {"content": [{"type": "input_text", "text": "x"}]}, USER),
        ask(USER, said(), USER),
    ),
    row("OC10", "no low surrogate", ask(USER, said(), {"role": "user", "content": "\udc00"}), ask(USER, said(), USER)),
]
