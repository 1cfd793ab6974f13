"""Your own loop with the Anthropic SDK. Set ANTHROPIC_API_KEY, and ANTHROPIC_BASE_URL if needed."""

from anthropic import Anthropic

from tidegate import Session

TOOLS = [
    {
        "name": "read",
        "description": "Read a page of the report.",
        "input_schema": {"type": "object", "properties": {"number": {"type": "integer"}}, "required": ["number"]},
    }
]


def read(number: int) -> str:
    return f"Page {number}: the code is K{number:04d}.\n" + "The harbor log has nothing new for this day.\n" * 60


client = Anthropic()
session = Session("claude-sonnet-4-5", window=16_000, max_tokens=1_000, system="You read reports.", tools=TOOLS)
session.add({"role": "user", "content": "Read all pages. Never skip one."})
while True:
    reply = client.messages.create(**session.prepare().body)
    session.add(reply)
    session.record(reply.usage)
    calls = [block for block in reply.content if block.type == "tool_use"]
    if not calls:
        break
    results = [{"type": "tool_result", "tool_use_id": call.id, "content": read(**call.input)} for call in calls]
    session.add({"role": "user", "content": results})

print(reply.content[0].text)
print(session.explain())
