"""Your own loop with the OpenAI SDK: the requests always fit. Set OPENAI_API_KEY, and OPENAI_BASE_URL if needed."""

import json

from openai import OpenAI

from tidegate import Session

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


client = OpenAI()
session = Session("gpt-4o", window=16_000, system="You read reports.", tools=TOOLS)
session.add({"role": "user", "content": "Read all pages. Never skip one."})
while True:
    reply = client.chat.completions.create(**session.prepare().body)
    message = reply.choices[0].message
    session.add(message)
    session.record(reply.usage)
    if not message.tool_calls:
        break
    for call in message.tool_calls:
        result = read(**json.loads(call.function.arguments))
        session.add({"role": "tool", "tool_call_id": call.id, "content": result})

print(message.content)
print(session.explain())
