"""The formats of benchmarks, frameworks and logs; see `samples`."""

import json
from typing import Any

from tests.lab.importers.samples import T, call, document, lines, result

CHAT: list[dict[str, Any]] = [
    {"role": "system", "content": "Be brief."},
    {"role": "user", "content": "go"},
    {"role": "assistant", "content": "Looking.", "tool_calls": [call("c1", path="a"), call("c2", path="b")]},
    result("c1", "one"),
    result("c2", "two"),
    {"role": "assistant", "content": "Done."},
]


def oh(at: int, source: str, **more: Any) -> dict[str, Any]:
    return {"id": at, "timestamp": f"2026-05-01T10:00:{at:02d}.000001", "source": source, **more}


def told(response: str, ident: str, *calls: dict[str, Any], text: str = "") -> dict[str, Any]:
    message = {"role": "assistant", "content": text, "tool_calls": list(calls)}
    model_response = {"id": response, "model": "llama-x", "choices": [{"message": message}]}
    return {"tool_call_id": ident, "function_name": "x", "model_response": model_response}


_BOTH = [call("c1", path="a"), call("c2", path="b")]
OPENHANDS = lines(
    {
        "instance_id": "oh-1",
        "instance": {"repo": "o/r"},
        "history": [
            oh(0, "agent", action="system", args={"content": "Be brief.", "tools": [{"type": "function"}]}),
            oh(1, "user", action="message", args={"content": "go", "image_urls": None}),
            oh(2, "user", action="recall", args={"query": "go"}),
            oh(3, "environment", observation="recall", content="context"),
            oh(4, "agent", action="run", tool_call_metadata=told("r1", "c1", *_BOTH, text="Looking.")),
            oh(5, "agent", action="run", tool_call_metadata=told("r1", "c2", *_BOTH, text="Looking.")),
            oh(6, "agent", observation="run", content="one", tool_call_metadata=told("r1", "c1")),
            oh(7, "agent", observation="run", content="two", tool_call_metadata=told("r1", "c2")),
            oh(8, "agent", observation="error", content="bad parameter"),
            oh(9, "agent", action="finish", tool_call_metadata=told("r2", "c3", call("c3", "finish"), text="Done.")),
        ],
    },
    {
        "instance_id": "oh-2",
        "history": [
            [oh(0, "user", action="message", args={"content": "old pairs"}), oh(1, "agent", observation="null")],
        ],
    },
)

SWE_AGENT = document(
    {
        "environment": "swe",
        "trajectory": [{"action": "ls\n", "observation": "a.py"}],
        "history": [
            {"role": "system", "content": "Be brief.", "agent": "primary"},
            {"role": "user", "content": "a demonstration", "is_demo": True},
            {"role": "user", "content": "go"},
            {"role": "assistant", "content": "Looking.\n```\nls\n```", "thought": "Looking.", "action": "ls\n"},
            {"role": "user", "content": "a.py\n$"},
            {"role": "assistant", "content": "End.\n```\nsubmit\n```", "thought": "End.", "action": "submit\n"},
        ],
        "info": {"exit_status": "submitted"},
    }
)
SWE_AGENT_SAID: list[dict[str, Any]] = [
    {"role": "system", "content": "Be brief."},
    {"role": "user", "content": "go"},
    {"role": "assistant", "content": "Looking.", "tool_calls": [call("call_1", "shell", command="ls\n")]},
    result("call_1", "a.py\n$"),
    {"role": "assistant", "content": "End."},
]
SWE_AGENT_CALLS = document(
    {
        "environment": "swe",
        "trajectory": [],
        "history": [
            {"role": "user", "content": [{"type": "text", "text": "go"}]},
            {
                "role": "assistant",
                "content": "Looking.",
                "action": "ls",
                "tool_calls": [call("x", "bash", command="ls")],
            },
            {"role": "tool", "content": "a.py", "tool_call_ids": ["x"]},
            {"role": "assistant", "content": "Again.", "action": "ls", "tool_calls": [call("x", "bash", command="ls")]},
            {"role": "tool", "content": "b.py", "tool_call_ids": ["x"]},
        ],
    }
)


def mini(*messages: dict[str, Any], form: str = "mini-swe-agent-1.1") -> bytes:
    info = {"mini_version": "2.2.7", "config": {"model": {"model_name": "some/model"}}}
    return document({"info": info, "messages": messages, "trajectory_format": form, "instance_id": "mi-1"})


MINI = mini(
    {"role": "system", "content": "Be brief."},
    {"role": "user", "content": "go"},
    {
        "role": "assistant",
        "content": "Looking.",
        "tool_calls": [call("c1", "bash", command="ls")],
        "extra": {"actions": [{"command": "ls", "tool_call_id": "c1"}], "timestamp": 1777000000.5},
    },
    {**result("c1", "a.py"), "extra": {"returncode": 0, "timestamp": 1777000001.5}},
    {"role": "exit", "content": "", "extra": {"exit_status": "Submitted"}},
)
MINI_TEXT = mini(
    {"role": "system", "content": "Be brief."},
    {"role": "user", "content": "go"},
    {"role": "assistant", "content": "THOUGHT: look\n\n```bash\nls -l\n```"},
    {"role": "user", "content": "<returncode>0</returncode>\n<output>\na.py\n</output>"},
    {"role": "assistant", "content": "```bash\necho COMPLETE\n```"},
)

TAU = document(
    [
        {
            "task_id": 3,
            "trial": 1,
            "reward": 1.0,
            "traj": [
                {"role": "user", "content": "hi"},
                {"role": "assistant", "content": None, "tool_calls": [call("same", path="a")]},
                {**result("same", "one"), "name": "look"},
                {"role": "assistant", "content": None, "tool_calls": [call("same", path="b")]},
                {**result("same", "two"), "name": "look"},
            ],
        },
        {"task_id": 4, "trial": 0, "traj": [{"role": "user", "content": "ho"}]},
    ]
)
TAU2 = document(
    {
        "info": {
            "environment_info": {"domain_name": "telecom", "policy": "Be fair."},
            "agent_info": {"llm": "gpt-x"},
        },
        "tasks": [],
        "simulations": [
            {
                "id": "sim-1",
                "messages": [
                    {"role": "assistant", "content": "Hello", "tool_calls": None, "timestamp": "2026-05-01T10:00:00"},
                    {
                        "role": "user",
                        "content": None,
                        "tool_calls": [{"id": "u1", "name": "toggle", "arguments": {}, "requestor": "user"}],
                    },
                    {"id": "u1", "role": "tool", "content": "toggled", "requestor": "user"},
                    {"role": "user", "content": "done"},
                    {
                        "role": "assistant",
                        "content": None,
                        "tool_calls": [
                            {"id": "a1", "name": "look", "arguments": {"n": 1}, "requestor": "assistant"},
                            {"id": "a2", "name": "look", "arguments": {"n": 2}, "requestor": "assistant"},
                        ],
                    },
                    {
                        "role": "tool",
                        "tool_messages": [
                            {"id": "a2", "role": "tool", "content": "two", "requestor": "assistant"},
                            {"id": "a1", "role": "tool", "content": "one", "requestor": "assistant"},
                        ],
                    },
                ],
            }
        ],
    }
)
MCP = "meta=None content=[TextContent(type='text', text='one')] isError=False"
LIVEMCP = document(
    [
        {
            "task_id": "lm-1",
            "Question": "go",
            "category": "work",
            "messages": [*CHAT[:3], result("c1", MCP), result("c2", "two"), CHAT[5]],
        }
    ]
)


def span(name: str, ident: str, attributes: dict[str, Any], *children: dict[str, Any]) -> dict[str, Any]:
    return {
        "trace_id": "tr",
        "span_id": ident,
        "span_name": name,
        "timestamp": T.format(1),
        "span_attributes": attributes,
        "child_spans": list(children),
    }


def flat(prefix: str, *messages: tuple[str, str]) -> dict[str, Any]:
    found = {}
    for at, (role, content) in enumerate(messages):
        found[f"{prefix}.{at}.message.role"] = role
        found[f"{prefix}.{at}.message.content"] = content
    return found


_CALLING = "Calling tools:\n" + repr(
    [{"id": "call_1", "type": "function", "function": {"name": "python_interpreter", "arguments": "print('a')"}}]
)
_SMOL = [
    ("system", "Be brief."),
    ("user", "New task:\ngo"),
    ("assistant", "Thought: look"),
    ("tool-call", _CALLING),
    ("tool-response", "Call id: call_1\nObservation:\na"),
    ("tool-response", "Call id: call_1\nError:\nboom"),
]
_LLM = {"openinference.span.kind": "LLM", "llm.model_name": "claude-x"}
SPANS = document(
    {
        "trace_id": "tr",
        "spans": [
            span(
                "CodeAgent.run",
                "1",
                {"openinference.span.kind": "AGENT"},
                span("step", "2", {}, span("model", "3", {**_LLM, **flat("llm.input_messages", *_SMOL[:2])})),
                span(
                    "step",
                    "4",
                    {},
                    span(
                        "model",
                        "5",
                        {
                            **_LLM,
                            **flat("llm.input_messages", *_SMOL),
                            **flat("llm.output_messages", ("assistant", "Thought: more")),
                        },
                    ),
                ),
            )
        ],
    }
)
SPANS_SAID: list[dict[str, Any]] = [
    {"role": "system", "content": "Be brief."},
    {"role": "user", "content": "New task:\ngo"},
    {
        "role": "assistant",
        "content": "Thought: look",
        "tool_calls": [call("call_1", "python_interpreter", code="print('a')")],
    },
    result("call_1", "a"),
]
_PARTS = [
    {"role": "user", "parts": [{"type": "text", "content": "go"}]},
    {
        "role": "assistant",
        "parts": [
            {"type": "text", "content": "Looking."},
            {"type": "tool_call", "id": "c1", "name": "look", "arguments": {"path": "a"}},
            {"type": "tool_call", "id": "c2", "name": "look", "arguments": {"path": "b"}},
        ],
    },
    {
        "role": "tool",
        "parts": [
            {"type": "tool_call_response", "id": "c1", "response": "one"},
            {"type": "tool_call_response", "id": "c2", "response": "two"},
        ],
    },
]
_DONE = [{"role": "assistant", "parts": [{"type": "text", "content": "Done."}], "finish_reason": "stop"}]
_GENAI = {
    "gen_ai.request.model": "gpt-x",
    "gen_ai.system_instructions": json.dumps([{"type": "text", "content": "Be brief."}]),
    "gen_ai.input.messages": json.dumps(_PARTS),
    "gen_ai.output.messages": json.dumps(_DONE),
}
OTLP = lines(
    {
        "resourceSpans": [
            {
                "scopeSpans": [
                    {
                        "spans": [
                            {
                                "traceId": "tr",
                                "spanId": "s",
                                "name": "chat",
                                "startTimeUnixNano": "1777000000000000000",
                                "attributes": [
                                    {"key": key, "value": {"stringValue": value}} for key, value in _GENAI.items()
                                ],
                            }
                        ]
                    }
                ]
            }
        ]
    }
)
SDK_SPANS = lines(
    {"name": "chat", "context": {"trace_id": "tr", "span_id": "s"}, "parent_id": None, "attributes": _GENAI}
)
