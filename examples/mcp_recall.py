"""An MCP client that reads a stored session through `tidegate mcp`. It needs the extra `mcp`, and no key."""

import asyncio
import sys
from tempfile import TemporaryDirectory

from mcp import Client, StdioServerParameters

from tidegate import DataFolder


def make_session(folder: str) -> None:
    with DataFolder(folder) as data, data.open("build-fix", "gpt-4o", window=2_000) as session:
        session.add({"role": "user", "content": "Find out which port is free. Never touch main."})
        for number in range(60):
            session.add(
                {"role": "assistant", "content": f"Step {number}: port {8000 + number} is taken. " + "So what? " * 10}
            )
            session.add({"role": "user", "content": "Go on."})
        request = session.prepare()
        print(f"The view has {len(request.messages)} of {session.log.head} events.")


async def read_back(folder: str) -> None:
    server = StdioServerParameters(command=sys.executable, args=["-m", "tidegate", "mcp", "--data", folder])
    async with Client(server) as client:
        tools = await client.list_tools()
        print("Tools:", ", ".join(tool.name for tool in tools.tools))
        answer = await client.call_tool("recall", {"what": "port 8003", "session": "build-fix"})
        for part in answer.content:
            if part.type == "text":
                print(part.text)


with TemporaryDirectory() as folder:
    make_session(folder)
    asyncio.run(read_back(folder))
