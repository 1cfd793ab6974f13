"""Read the messages in the attributes of a span, in the three conventions and in the form of smolagents.

smolagents writes calls and results as text: `Calling tools:` with the printed form of Python objects, which is parsed
as a literal and never executed, and `Call id: ... Observation: ...`. The answer to the last prompt is there only as
text, with its call inside, so it is left out.
"""

import ast
import re

from tidegate.lab.importers.conversation_builder import ConversationBuilder, RecordedCall
from tidegate.lab.importers.json_fields import (
    encode_recorded_json,
    first_text,
    list_objects,
    list_or_empty,
    object_or_empty,
    string_or_empty,
)
from tidegate.lab.importers.recording import JsonRecord
from tidegate.lab.importers.source_file import load_bounded_json

_MAX_LITERAL_CHARS = 2**20
_INPUT_PREFIXES, _OUTPUT_PREFIXES = (
    ("llm.input_messages.", "gen_ai.prompt."),
    ("llm.output_messages.", "gen_ai.completion."),
)
_CALLS_HEADING = "Calling tools:\n"
_RESULT_PATTERN = re.compile(r"(?:Call id: (\S+)\n)?(?:Observation|Error):\n(.*)", re.DOTALL)


def read_span_prompt(attributes: JsonRecord) -> list[JsonRecord]:
    """Return the messages of a prompt by role, or nothing if the span is not a model call."""
    structured = _load_objects(attributes.get("gen_ai.input.messages"))
    if structured:
        return list_objects(_load_objects(attributes.get("gen_ai.system_instructions"))) + structured
    return _unflatten_messages(attributes, _INPUT_PREFIXES)


def build_span_conversation(attributes: JsonRecord) -> ConversationBuilder:
    talk = ConversationBuilder()
    roles = set()
    for message in read_span_prompt(attributes):
        roles.add(string_or_empty(message.get("role")))
        _add_message(talk, message)
    answer = _load_objects(attributes.get("gen_ai.output.messages")) or _unflatten_messages(
        attributes, _OUTPUT_PREFIXES
    )
    if answer and roles & {"tool-call", "tool-response"}:
        talk.count_omitted("answers to the last prompt")
    else:
        for message in answer[:1]:
            _add_message(talk, {"role": "assistant", **message})
    return talk


def _load_objects(value: object) -> list[JsonRecord]:
    return list_objects(load_bounded_json(value) if isinstance(value, str) else value)


def _unflatten_messages(attributes: JsonRecord, prefixes: tuple[str, ...]) -> list[JsonRecord]:
    """Build messages from keys such as `llm.input_messages.0.message.role`."""
    tree: JsonRecord = {}
    for key, value in attributes.items():
        prefix = next((each for each in prefixes if key.startswith(each)), "")
        steps = key[len(prefix) :].split(".") if prefix else []
        at = tree
        for step in steps[:-1][:8]:
            inner = at.setdefault(step, {})
            if not isinstance(inner, dict):
                break
            at = inner
        if steps:
            at[steps[-1]] = value
    return [_unwrap_message(object_or_empty(message)) for message in _numbered_values(tree)]


def _numbered_values(tree: object) -> list[object]:
    numbered = {
        int(key): value
        for key, value in object_or_empty(tree).items()
        if key.isascii() and key.isdecimal() and len(key) < 9
    }
    return [numbered[key] for key in sorted(numbered)]


def _unwrap_message(message: JsonRecord) -> JsonRecord:
    """Unwrap a message of OpenInference, which puts each level under a name."""
    inner = object_or_empty(message.get("message")) or message
    calls = [
        object_or_empty(object_or_empty(each).get("tool_call")) or object_or_empty(each)
        for each in _numbered_values(inner.get("tool_calls"))
    ]
    parts = [
        object_or_empty(object_or_empty(each).get("message_content"))
        for each in _numbered_values(inner.get("contents"))
    ]
    content = string_or_empty(inner.get("content")) or "\n".join(first_text(part, "text") for part in parts)
    return {**inner, "content": content, "tool_calls": calls}


def _add_message(talk: ConversationBuilder, message: JsonRecord) -> None:
    role = string_or_empty(message.get("role"))
    content = string_or_empty(message.get("content"))
    if "parts" in message or message.get("type") == "text":
        _add_genai_message(talk, message)
    elif role == "tool-call":
        _add_smolagents_calls(talk, content)
    elif role == "tool-response":
        found = _RESULT_PATTERN.match(content)
        talk.add_result((found[1] or "") if found else "", found[2] if found else content)
    elif role in ("assistant", "ai", "model"):
        talk.add_answer(content, [_read_call(each) for each in list_objects(message.get("tool_calls"))])
    elif role in ("tool", "function"):
        talk.add_result(first_text(message, "tool_call_id"), content)
    else:
        talk.add_message("user" if role in ("user", "human") else "system", content)


def _add_genai_message(talk: ConversationBuilder, message: JsonRecord) -> None:
    """Add a message of the GenAI conventions. Instructions are parts without a message around them."""
    parts = list_objects(message.get("parts")) or [message]
    texts = [string_or_empty(part.get("content")) for part in parts if part.get("type") == "text"]
    role = string_or_empty(message.get("role"))
    for part in parts:
        if part.get("type") == "tool_call_response":
            answered = part.get("response", part.get("result"))
            talk.add_result(
                first_text(part, "id"), answered if isinstance(answered, str) else encode_recorded_json(answered)
            )
    if role == "assistant":
        calls = [_read_call(part) for part in parts if part.get("type") == "tool_call"]
        thoughts = [string_or_empty(part.get("content")) for part in parts if part.get("type") == "reasoning"]
        talk.add_answer("\n".join(texts), calls, "\n".join(thoughts))
    else:
        talk.add_message("user" if role == "user" else "system", "\n".join(texts))


def _read_call(call: JsonRecord) -> RecordedCall:
    function = object_or_empty(call.get("function"))
    name = first_text(function, "name") or first_text(call, "name", "function.name")
    return RecordedCall(first_text(call, "id"), name, function.get("arguments", call.get("arguments")))


def _add_smolagents_calls(talk: ConversationBuilder, content: str) -> None:
    calls = []
    for each in list_objects(_parse_literal(content.removeprefix(_CALLS_HEADING))):
        call = _read_call(each)
        arguments = call.arguments
        if isinstance(arguments, str):
            arguments = {"code" if call.name == "python_interpreter" else "input": arguments}
        calls.append(RecordedCall(call.id, call.name, arguments))
    last = talk.messages[-1] if talk.messages else {}
    if not calls:
        talk.count_omitted("calls that could not be read")
    elif last.get("role") == "assistant" and not last.get("tool_calls"):
        talk.extend_answer(last, calls=calls)
    else:
        talk.add_answer(calls=calls)


def _parse_literal(text: str) -> list[object]:
    """Parse Python's printed form of a list. Only literals are parsed; nothing is executed."""
    if len(text) > _MAX_LITERAL_CHARS:
        return []
    try:
        return list_or_empty(ast.literal_eval(text.strip()))
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        return []
