"""The messages in the attributes of a span, in the three conventions, and in the words of smolagents.

smolagents writes calls and results as text: `Calling tools:` with the printed form of Python objects, which is read as
a literal and never run, and `Call id: ... Observation: ...`. The answer to the last prompt is there only as text too,
its call not yet told apart, so it is left out.
"""

import ast
import re

from tidegate.lab.importers.fields import a_dict, a_list, a_str, dicts, json_text, text_at
from tidegate.lab.importers.recording import Json
from tidegate.lab.importers.source import loaded
from tidegate.lab.importers.talk import Call, Talk

LONGEST_LITERAL = 2**20
_INPUT, _OUTPUT = ("llm.input_messages.", "gen_ai.prompt."), ("llm.output_messages.", "gen_ai.completion.")
_CALLING = "Calling tools:\n"
_ANSWERED = re.compile(r"(?:Call id: (\S+)\n)?(?:Observation|Error):\n(.*)", re.DOTALL)


def prompt_of(attributes: Json) -> list[Json]:
    """The messages of a prompt, as far as told apart by role; empty if this is not a model call."""
    structured = _loaded(attributes.get("gen_ai.input.messages"))
    if structured:
        return dicts(_loaded(attributes.get("gen_ai.system_instructions"))) + structured
    return _flat(attributes, _INPUT)


def talk_of(attributes: Json) -> Talk:
    talk = Talk()
    roles = set()
    for message in prompt_of(attributes):
        roles.add(a_str(message.get("role")))
        _add(talk, message)
    answer = _loaded(attributes.get("gen_ai.output.messages")) or _flat(attributes, _OUTPUT)
    if answer and roles & {"tool-call", "tool-response"}:
        talk.leave("answers to the last prompt")
    else:
        for message in answer[:1]:
            _add(talk, {"role": "assistant", **message})
    return talk


def _loaded(value: object) -> list[Json]:
    return dicts(loaded(value) if isinstance(value, str) else value)


def _flat(attributes: Json, prefixes: tuple[str, ...]) -> list[Json]:
    """From keys such as `llm.input_messages.0.message.role` to messages."""
    tree: Json = {}
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
    return [_unwrapped(a_dict(message)) for message in _in_order(tree)]


def _in_order(tree: object) -> list[object]:
    numbered = {
        int(key): value for key, value in a_dict(tree).items() if key.isascii() and key.isdecimal() and len(key) < 9
    }
    return [numbered[key] for key in sorted(numbered)]


def _unwrapped(message: Json) -> Json:
    """OpenInference puts each level under a name of its own."""
    inner = a_dict(message.get("message")) or message
    calls = [a_dict(a_dict(each).get("tool_call")) or a_dict(each) for each in _in_order(inner.get("tool_calls"))]
    parts = [a_dict(a_dict(each).get("message_content")) for each in _in_order(inner.get("contents"))]
    content = a_str(inner.get("content")) or "\n".join(text_at(part, "text") for part in parts)
    return {**inner, "content": content, "tool_calls": calls}


def _add(talk: Talk, message: Json) -> None:
    role = a_str(message.get("role"))
    content = a_str(message.get("content"))
    if "parts" in message or message.get("type") == "text":
        _structured(talk, message)
    elif role == "tool-call":
        _calling(talk, content)
    elif role == "tool-response":
        found = _ANSWERED.match(content)
        talk.result((found[1] or "") if found else "", found[2] if found else content)
    elif role in ("assistant", "ai", "model"):
        talk.answer(content, [_call(each) for each in dicts(message.get("tool_calls"))])
    elif role in ("tool", "function"):
        talk.result(text_at(message, "tool_call_id"), content)
    else:
        talk.say("user" if role in ("user", "human") else "system", content)


def _structured(talk: Talk, message: Json) -> None:
    """A message of the GenAI conventions; instructions are parts without a message around them."""
    parts = dicts(message.get("parts")) or [message]
    texts = [a_str(part.get("content")) for part in parts if part.get("type") == "text"]
    role = a_str(message.get("role"))
    for part in parts:
        if part.get("type") == "tool_call_response":
            answered = part.get("response", part.get("result"))
            talk.result(text_at(part, "id"), answered if isinstance(answered, str) else json_text(answered))
    if role == "assistant":
        calls = [_call(part) for part in parts if part.get("type") == "tool_call"]
        thoughts = [a_str(part.get("content")) for part in parts if part.get("type") == "reasoning"]
        talk.answer("\n".join(texts), calls, "\n".join(thoughts))
    else:
        talk.say("user" if role == "user" else "system", "\n".join(texts))


def _call(call: Json) -> Call:
    function = a_dict(call.get("function"))
    name = text_at(function, "name") or text_at(call, "name", "function.name")
    return Call(text_at(call, "id"), name, function.get("arguments", call.get("arguments")))


def _calling(talk: Talk, content: str) -> None:
    calls = []
    for each in dicts(_literal(content.removeprefix(_CALLING))):
        call = _call(each)
        arguments = call.arguments
        if isinstance(arguments, str):
            arguments = {"code" if call.name == "python_interpreter" else "input": arguments}
        calls.append(Call(call.id, call.name, arguments))
    last = talk.messages[-1] if talk.messages else {}
    if not calls:
        talk.leave("calls that could not be read")
    elif last.get("role") == "assistant" and not last.get("tool_calls"):
        talk.more(last, calls=calls)
    else:
        talk.answer(calls=calls)


def _literal(text: str) -> list[object]:
    """Python's printed form of a list. Only literals are read; nothing is run."""
    if len(text) > LONGEST_LITERAL:
        return []
    try:
        return a_list(ast.literal_eval(text.strip()))
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        return []
