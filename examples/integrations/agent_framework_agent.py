"""An agent of Microsoft Agent Framework whose requests always fit the window. Set OPENAI_API_KEY."""

import asyncio

from agent_framework import Agent
from agent_framework.openai import OpenAIChatCompletionClient

from tidegate.integrations.agent_framework import TidegateMiddleware


def read(number: int) -> str:
    """Read a page of the report."""
    return f"Page {number}: the code is K{number:04d}.\n" + "The harbor log has nothing new for this day.\n" * 60


async def main() -> None:
    tidegate = TidegateMiddleware(window=16_000)
    agent = Agent(
        OpenAIChatCompletionClient(model="gpt-4o"), tools=[read, tidegate.recall_tool()], middleware=[tidegate]
    )
    result = await agent.run("Read all pages.", session=agent.create_session(session_id="report"))
    print(result.text)
    print(tidegate.session("report").explain())


asyncio.run(main())
