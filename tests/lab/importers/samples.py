"""Small sessions in every format, made up for these tests: each with the quirks its importer must know."""

import json
from typing import Any

T = "2026-05-01T10:00:{:02d}.000Z"


def lines(*values: Any) -> bytes:
    return b"".join(json.dumps(value).encode() + b"\n" for value in values)


def document(value: Any) -> bytes:
    return json.dumps(value, indent=1).encode()


def call(ident: str, name: str = "look", **arguments: Any) -> dict[str, Any]:
    return {"id": ident, "type": "function", "function": {"name": name, "arguments": json.dumps(arguments)}}


def result(ident: str, content: str) -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": ident, "content": content}


# --- agents -------------------------------------------------------------------------------------------------------


def cc(kind: str, at: int, content: Any, ident: str = "", **more: Any) -> dict[str, Any]:
    message: dict[str, Any] = {"role": kind, "content": content}
    if kind == "assistant":
        message |= {"id": ident, "model": more.pop("model", "claude-x")}
    return {
        "type": kind,
        "uuid": f"u{at}",
        "parentUuid": more.pop("parent", f"u{at - 1}"),
        "sessionId": "cc-1",
        "cwd": "/home/me/project",
        "timestamp": T.format(at),
        "message": message,
        **more,
    }


def use(ident: str, name: str = "Bash", **inputs: Any) -> dict[str, Any]:
    return {"type": "tool_use", "id": ident, "name": name, "input": inputs}


def used(ident: str, content: Any) -> dict[str, Any]:
    return {"type": "tool_result", "tool_use_id": ident, "content": content}


CLAUDE_CODE = lines(
    {"type": "permission-mode", "permissionMode": "default", "sessionId": "cc-1"},
    {"type": "attachment", "uuid": "a0", "sessionId": "cc-1", "attachment": {"type": "hook_success"}},
    cc("user", 1, "fix it <system-reminder>be kind</system-reminder>", parent=None),
    cc("assistant", 2, [{"type": "thinking", "thinking": " hmm ", "signature": "s"}], "m1"),
    cc("assistant", 3, [{"type": "text", "text": "Looking."}], "m1"),
    cc("user", 4, [used("t2", "two")]),  # written before its call, by a parallel writer
    cc("assistant", 5, [use("t1", command="ls")], "m1"),
    cc("user", 6, [used("t1", [{"type": "text", "text": "one"}, {"type": "tool_reference", "tool_name": "Task"}])]),
    cc("assistant", 7, [use("t2", command="pwd")], "m1"),
    cc("assistant", 8, [{"type": "text", "text": "in a subagent"}], "s1", isSidechain=True),
    cc("assistant", 9, [{"type": "text", "text": "API error"}], "e1", model="<synthetic>"),
    {"type": "system", "subtype": "compact_boundary", "uuid": "b", "sessionId": "cc-1"},
    cc("user", 10, "All of it so far.", isCompactSummary=True),
    cc("user", 11, "first try", parent="u10"),
    cc("assistant", 12, [{"type": "text", "text": "to the first try"}], "m2"),
    cc("user", 13, "second try", parent="u10"),
    cc("assistant", 14, [use("t3", command="sleep 9")], "m3"),
)
CLAUDE_CODE_SAID: list[dict[str, Any]] = [
    {"role": "user", "content": "fix it <system-reminder>be kind</system-reminder>"},
    {
        "role": "assistant",
        "content": "Looking.",
        "reasoning_content": "hmm",
        "tool_calls": [call("t1", "Bash", command="ls"), call("t2", "Bash", command="pwd")],
    },
    result("t1", "one\n[tool: Task]"),
    result("t2", "two"),
    {"role": "user", "content": "second try"},
    {"role": "assistant", "content": None, "tool_calls": [call("t3", "Bash", command="sleep 9")]},
    result("t3", "[no result recorded in source]"),
]


def item(at: int, **payload: Any) -> dict[str, Any]:
    return {"timestamp": T.format(at), "type": "response_item", "payload": payload}


def words(role: str, *texts: str) -> dict[str, Any]:
    kind = "output_text" if role == "assistant" else "input_text"
    return {"type": "message", "role": role, "content": [{"type": kind, "text": text} for text in texts]}


_META = {"id": "cx-1", "cwd": "/p", "base_instructions": {"text": "Be Codex."}}
CODEX = (
    lines({"timestamp": T.format(0), "type": "session_meta", "payload": _META})
    + json.dumps({"timestamp": T.format(0), "type": "turn_context", "payload": {"model": "gpt-x"}}).encode()
    + lines(item(1, **words("developer", "one", "two")))  # two objects on one line
    + lines(
        item(2, **words("user", "go")),
        {"timestamp": T.format(2), "type": "event_msg", "payload": {"type": "user_message", "message": "go"}},
        item(3, type="reasoning", summary=[{"type": "summary_text", "text": "plan"}], encrypted_content="x"),
        item(4, **words("assistant", "On it.")),
        item(5, type="function_call", name="shell", arguments='{"cmd":"ls"}', call_id="c1"),
        item(5, type="custom_tool_call", name="apply_patch", input="*** Begin", call_id="c2"),
        item(5, type="web_search_call", action={"query": "q"}),
        item(6, type="custom_tool_call_output", call_id="c2", output="patched"),
        item(7, type="function_call_output", call_id="c1", output={"content": "a.py", "success": True}),
        {
            "timestamp": T.format(8),
            "type": "compacted",
            "payload": {"message": "so far", "replacement_history": [words("user", "go")]},
        },
        item(9, **words("assistant", "Done.")),
    )
)
CODEX_SAID: list[dict[str, Any]] = [
    {"role": "system", "content": "Be Codex."},
    {"role": "system", "content": "one\ntwo"},
    {"role": "user", "content": "go"},
    {
        "role": "assistant",
        "content": "On it.",
        "reasoning_content": "plan",
        "tool_calls": [call("c1", "shell", cmd="ls"), call("c2", "apply_patch", input="*** Begin")],
    },
    result("c1", "a.py"),
    result("c2", "patched"),
    {"role": "assistant", "content": "Done."},
]
CODEX_OLD = lines(
    {"id": "cx-0", "timestamp": T.format(0), "instructions": "Be old.", "git": {}},
    {"record_type": "state"},
    words("user", "go"),
    {"type": "function_call", "name": "shell", "arguments": "{}", "call_id": "c1"},
    {"type": "function_call_output", "call_id": "c1", "output": "done"},
)


def oc_tool(ident: str, status: str, **state: Any) -> dict[str, Any]:
    return {"type": "tool", "tool": "bash", "callID": ident, "state": {"status": status, **state}}


def oc_message(role: str, at: int, *parts: dict[str, Any], **info: Any) -> dict[str, Any]:
    return {"info": {"role": role, "id": f"msg_{at}", "time": {"created": 1777000000000 + at}, **info}, "parts": parts}


STEP = {"type": "step-start"}
OPENCODE_INFO = {"id": "ses_1", "directory": "/p", "projectID": "x", "time": {"created": 1777000000000}}
OPENCODE_MESSAGES = [
    oc_message("user", 1, {"type": "text", "text": "go"}),
    oc_message(
        "assistant",
        2,
        STEP,
        {"type": "reasoning", "text": "plan"},
        {"type": "text", "text": "Looking."},
        oc_tool("functions.bash:0", "completed", input={"command": "ls"}, output="a.py"),
        {"type": "step-finish"},
        STEP,
        oc_tool("functions.bash:0", "error", input={"command": "cat"}, error="no such file"),
        {"type": "text", "text": "Hm."},
        {"type": "patch", "files": []},
        modelID="kimi",
    ),
    oc_message("assistant", 3),
    oc_message("assistant", 4, {"type": "text", "text": "All so far."}, summary=True),
    oc_message("assistant", 5, STEP, oc_tool("c9", "running", input={"command": "sleep"})),
]
OPENCODE = document({"info": OPENCODE_INFO, "messages": OPENCODE_MESSAGES})
OPENCODE_SAID: list[dict[str, Any]] = [
    {"role": "user", "content": "go"},
    {
        "role": "assistant",
        "content": "Looking.",
        "reasoning_content": "plan",
        "tool_calls": [call("functions.bash:0", "bash", command="ls")],
    },
    result("functions.bash:0", "a.py"),
    {"role": "assistant", "content": None, "tool_calls": [call("functions.bash:0_2", "bash", command="cat")]},
    result("functions.bash:0_2", "no such file"),
    {"role": "assistant", "content": "Hm."},
    {"role": "assistant", "content": None, "tool_calls": [call("c9", "bash", command="sleep")]},
    result("c9", "[no result recorded in source]"),
]


def event(at: int, kind: str, **data: Any) -> dict[str, Any]:
    return {"type": kind, "data": data, "id": f"e{at}", "timestamp": T.format(at), "parentId": None}


COPILOT = lines(
    event(0, "session.start", sessionId="cp-1", context={"cwd": "/p"}),
    event(1, "system.message", role="system", content="Be Copilot."),
    event(2, "user.message", content="go", transformedContent="<now/> go"),
    event(2, "hook.start", hookType="x"),
    event(
        3,
        "assistant.message",
        model="claude-x",
        content="",
        reasoningText="plan",
        toolRequests=[
            {"toolCallId": "t1", "name": "bash", "arguments": {"command": "ls"}},
            {"toolCallId": "t2", "name": "apply_patch", "arguments": "*** not JSON"},
        ],
    ),
    event(4, "assistant.message", content="a subagent", toolRequests=[], parentToolCallId="t1"),
    event(5, "tool.execution_complete", toolCallId="t2", success=False, error={"message": "refused"}),
    event(6, "tool.execution_complete", toolCallId="t1", success=True, result={"content": "a.py"}),
    event(7, "system.notification", content="shell 3 ended"),
    event(8, "assistant.message", content="Done.", toolRequests=[]),
)
COPILOT_SAID: list[dict[str, Any]] = [
    {"role": "system", "content": "Be Copilot."},
    {"role": "user", "content": "go"},
    {
        "role": "assistant",
        "content": None,
        "reasoning_content": "plan",
        "tool_calls": [
            call("t1", "bash", command="ls"),
            {"id": "t2", "type": "function", "function": {"name": "apply_patch", "arguments": "*** not JSON"}},
        ],
    },
    result("t1", "a.py"),
    result("t2", 'Error: {"message": "refused"}'),
    {"role": "assistant", "content": "Done."},
]

_G_USER = {
    "id": "g1",
    "timestamp": T.format(1),
    "type": "user",
    "content": [{"text": "go"}, {"text": "@file"}],
    "displayContent": [{"text": "go"}],
}
_G_RESPONSE = {"functionResponse": {"id": "f1", "name": "read", "response": {"output": "a.py"}}}
_G_CALLS: list[dict[str, Any]] = [
    {"id": "f1", "name": "read", "args": {"path": "a"}, "status": "success", "result": [_G_RESPONSE]},
    {"id": "f2", "name": "read", "args": {"path": "b"}, "status": "cancelled"},
]
_G_ANSWER = {
    "id": "g3",
    "timestamp": T.format(3),
    "type": "gemini",
    "content": "Reading.",
    "model": "gemini-x",
    "thoughts": [{"subject": "Plan", "description": "read it"}, {"subject": "Then", "description": "stop"}],
    "toolCalls": _G_CALLS,
}
_G_INFO = {"id": "g2", "timestamp": T.format(2), "type": "info", "content": "Update available"}
_G_HEAD = {"sessionId": "ge-1", "projectHash": "ab" * 32, "startTime": T.format(0)}
GEMINI = document({**_G_HEAD, "messages": [_G_USER, _G_INFO, _G_ANSWER], "kind": "main"})
GEMINI_LINES = lines(
    {**_G_HEAD, "kind": "main"},
    {"$set": {"messages": [_G_USER]}},
    _G_INFO,
    {**_G_ANSWER, "toolCalls": [{**_G_CALLS[0], "result": None}, _G_CALLS[1]]},
    _G_ANSWER,
    {"id": "g4", "timestamp": T.format(4), "type": "user", "content": "taken back"},
    {"$rewindTo": "g4"},
)
GEMINI_SAID: list[dict[str, Any]] = [
    {"role": "user", "content": "go\n@file"},
    {
        "role": "assistant",
        "content": "Reading.",
        "reasoning_content": "Plan: read it\nThen: stop",
        "tool_calls": [call("f1", "read", path="a"), call("f2", "read", path="b")],
    },
    result("f1", "a.py"),
    result("f2", "[no result recorded in source]"),
]


def pi(at: int, message: dict[str, Any] | None = None, parent: int | None = None, **more: Any) -> dict[str, Any]:
    above = parent if parent is not None else at - 1
    entry = {"type": "message", "id": f"p{at}", "parentId": f"p{above}" if above else None, "timestamp": T.format(at)}
    return {**entry, **({"message": message} if message else {}), **more}


PI = lines(
    {"type": "session", "version": 3, "id": "pi-1", "timestamp": T.format(0), "cwd": "/p"},
    pi(1, type="model_change", modelId="gpt-x"),
    pi(2, {"role": "user", "content": [{"type": "text", "text": "go"}]}),
    pi(3, {"role": "assistant", "content": [{"type": "text", "text": "a branch left"}]}),
    pi(
        4,
        {
            "role": "assistant",
            "model": "gpt-x",
            "content": [
                {"type": "thinking", "thinking": "plan"},
                {"type": "toolCall", "id": "call_1|fc_1", "name": "ls", "arguments": {"path": "."}},
                {"type": "text", "text": "Listing."},
            ],
        },
        parent=2,
    ),
    pi(5, {"role": "toolResult", "toolCallId": "call_1|fc_1", "content": [{"type": "text", "text": "a.py"}]}),
    pi(6, type="compaction", summary="All so far.", firstKeptEntryId="p4"),
    pi(7, {"role": "bashExecution", "command": "pwd", "output": "/p", "exitCode": 0}),
    pi(8, {"role": "bashExecution", "command": "env", "output": "K=1", "excludeFromContext": True}),
    pi(9, {"role": "assistant", "content": [], "stopReason": "aborted"}),
)
PI_SAID: list[dict[str, Any]] = [
    {"role": "user", "content": "go"},
    {
        "role": "assistant",
        "content": "Listing.",
        "reasoning_content": "plan",
        "tool_calls": [call("call_1|fc_1", "ls", path=".")],
    },
    result("call_1|fc_1", "a.py"),
    {"role": "user", "content": "Ran `pwd`\n```\n/p\n```"},
]
