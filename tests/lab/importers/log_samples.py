"""What frameworks dump and proxies log; see `samples`."""

from typing import Any

from tests.lab.importers.bench_samples import CHAT
from tests.lab.importers.samples import T, document, lines

_LC_CALLS = [
    {"name": "look", "args": {"path": "a"}, "id": "c1", "type": "tool_call"},
    {"name": "look", "args": {"path": "b"}, "id": "c2", "type": "tool_call"},
]
_LC: list[tuple[str, str, dict[str, Any]]] = [
    ("system", "SystemMessage", {"content": "Be brief."}),
    ("human", "HumanMessage", {"content": [{"type": "text", "text": "go"}]}),
    ("ai", "AIMessage", {"content": "Looking.", "tool_calls": _LC_CALLS, "response_metadata": {"model_name": "gpt-x"}}),
    ("tool", "ToolMessage", {"content": "one", "tool_call_id": "c1"}),
    ("tool", "ToolMessage", {"content": "two", "tool_call_id": "c2"}),
    ("ai", "AIMessage", {"content": [{"type": "text", "text": "Done."}], "tool_calls": []}),
]
LANGCHAIN = {
    "dict": document([{"type": kind, "data": fields} for kind, _, fields in _LC]),
    "dumpd": document(
        [
            {"lc": 1, "type": "constructor", "id": ["langchain", "schema", "messages", name], "kwargs": fields}
            for _, name, fields in _LC
        ]
    ),
    "model_dump": lines(*({"type": kind, "additional_kwargs": {}, **fields} for kind, _, fields in _LC)),
    "state": document({"values": {"messages": [{"type": kind, **fields} for kind, _, fields in _LC]}, "next": []}),
    "history": lines(
        *({"channel_values": {"messages": [{"type": k, **f} for k, _, f in _LC[:upto]]}} for upto in (6, 4, 2))
    ),
}


def request(upto: int, **more: Any) -> dict[str, Any]:
    return {"model": "gpt-x", "messages": CHAT[:upto], **more}


OTHER = {"model": "gpt-x", "messages": [{"role": "user", "content": "a side question"}]}
TOOL = {"type": "function", "function": {"name": "look", "description": "", "parameters": {"type": "object"}}}
OPENAI_LOG = lines(
    {"request": request(2, tools=[TOOL]), "response": {"choices": [{"message": CHAT[2]}]}, "timestamp": T.format(1)},
    {"request": OTHER, "response": {"choices": [{"message": {"role": "assistant", "content": "aside"}}]}},
    {"request": request(5, tools=[TOOL]), "response": {"choices": [{"message": CHAT[5]}]}, "timestamp": T.format(9)},
)
BATCH = lines({"custom_id": "1", "method": "POST", "url": "/v1/chat/completions", "body": request(6)})
_TEXT = {"type": "text", "text": "go"}
_USES = [
    {"type": "tool_use", "id": "c1", "name": "look", "input": {"path": "a"}},
    {"type": "tool_use", "id": "c2", "name": "look", "input": {"path": "b"}},
]
_USED = [
    {"type": "tool_result", "tool_use_id": "c1", "content": "one"},
    {"type": "tool_result", "tool_use_id": "c2", "content": [{"type": "text", "text": "two"}]},
]
ANTHROPIC_LOG = lines(
    {
        "body": {
            "model": "claude-x",
            "system": "Be brief.",
            "messages": [{"role": "user", "content": [{**_TEXT, "cache_control": {"type": "ephemeral"}}]}],
        },
        "response": {"type": "message", "role": "assistant", "content": [{"type": "text", "text": "Looking."}, *_USES]},
    },
    {
        "body": {
            "model": "claude-x",
            "system": "Be brief.",
            "messages": [
                {"role": "user", "content": "go"},
                {"role": "assistant", "content": [{"type": "text", "text": "Looking."}, *_USES]},
                {"role": "user", "content": _USED},
            ],
        },
        "response": {"type": "message", "role": "assistant", "content": [{"type": "text", "text": "Done."}]},
    },
)
RESPONSES_LOG = lines(
    {
        "model": "gpt-x",
        "instructions": "Be brief.",
        "input": [
            {"role": "user", "content": "go"},
            {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Looking."}]},
            {"type": "function_call", "call_id": "c1", "name": "look", "arguments": '{"path": "a"}'},
            {"type": "function_call", "call_id": "c2", "name": "look", "arguments": '{"path": "b"}'},
            {"type": "function_call_output", "call_id": "c1", "output": "one"},
            {"type": "function_call_output", "call_id": "c2", "output": "two"},
            {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Done."}]},
        ],
    }
)
NORMAL = lines({"meta": {"agent": "Some", "model": "gpt-x", "repo": "o/r", "source": "some", "id": "n1"}}, *CHAT)
