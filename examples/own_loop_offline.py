"""Your own loop with a model that is a function in this file: it needs neither a key nor a network.

The model reads 40 pages, far more than its window of 8,000 tokens holds, and then tells what it still sees.
"""

import json
import re
from typing import Any

from tidegate import Session

Json = dict[str, Any]
PAGES = 40
TOOLS = [
    {
        "type": "function",
        "function": {
            "name": "read",
            "description": "Read a page of the report.",
            "parameters": {"type": "object", "properties": {"number": {"type": "integer"}}, "required": ["number"]},
        },
    }
]


def read(number: int) -> str:
    return f"Page {number}: the code is K{number:04d}.\n" + "The harbor log has nothing new for this day.\n" * 60


def model(*, messages: list[Json], **_: Any) -> Json:
    """Stands for your client: read the page after the last one, and answer when all are read."""
    page = max((int(found) for found in re.findall(r"Page (\d+):", json.dumps(messages))), default=0) + 1
    message: Json = {"role": "assistant", "content": f"I have read {PAGES} pages and see {len(messages)} messages."}
    if page <= PAGES:
        function = {"name": "read", "arguments": json.dumps({"number": page})}
        calls = [{"id": f"call_{page}", "type": "function", "function": function}]
        message = {"role": "assistant", "content": None, "tool_calls": calls}
    return {"message": message, "usage": {"prompt_tokens": len(json.dumps(messages)) // 4, "completion_tokens": 20}}


session = Session("gpt-4o", window="8k", system="You read reports.", tools=TOOLS)
session.add({"role": "user", "content": "Read all pages. Never skip one."})
while True:
    reply = model(**session.prepare().body)
    session.add(reply["message"])
    session.record(reply["usage"])
    if not reply["message"].get("tool_calls"):
        break
    for call in reply["message"]["tool_calls"]:
        result = read(**json.loads(call["function"]["arguments"]))
        session.add({"role": "tool", "tool_call_id": call["id"], "content": result})

print(reply["message"]["content"])
print("Page 1 left the window and can be recalled:", session.history.search("K0001").text)
print(session.explain())
