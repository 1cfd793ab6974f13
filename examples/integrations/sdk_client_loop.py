"""A loop of your own whose requests always fit the window. Set OPENAI_API_KEY, and OPENAI_BASE_URL if needed."""

import json
from typing import Any

import openai

import tidegate

PARAMETERS = {"type": "object", "properties": {"number": {"type": "integer"}}, "required": ["number"]}
TOOLS: Any = [{"type": "function", "function": {"name": "read", "parameters": PARAMETERS}}]


def read(number: int) -> str:
    return f"Page {number}: the code is K{number:04d}.\n" + "The harbor log has nothing new for this day.\n" * 60


messages: list[Any] = [{"role": "user", "content": "Read all pages."}]
with tidegate.managed(openai.OpenAI(), session="report", window=16_000) as client:
    while True:
        reply = client.chat.completions.create(model="gpt-4o", messages=messages, tools=TOOLS).choices[0].message
        messages.append(reply)
        for call in reply.tool_calls or []:
            if call.type == "function":
                text = read(**json.loads(call.function.arguments))
                messages.append({"role": "tool", "tool_call_id": call.id, "content": text})
        if not reply.tool_calls:
            break
print(reply.content)
