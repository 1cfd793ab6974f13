"""An ADK agent whose requests always fit the window. Set GOOGLE_API_KEY."""

import asyncio

from google.adk.agents import LlmAgent
from google.adk.apps import App
from google.adk.runners import InMemoryRunner
from google.genai import types

from tidegate.integrations.google_adk import TidegatePlugin


def read(number: int) -> str:
    """Read a page of the report."""
    return f"Page {number}: the code is K{number:04d}.\n" + "The harbor log has nothing new for this day.\n" * 60


async def main() -> None:
    tidegate = TidegatePlugin(window=16_000)
    agent = LlmAgent(name="reader", model="gemini-2.5-flash", tools=[read, tidegate.recall_tool()])
    runner = InMemoryRunner(app=App(name="app", root_agent=agent, plugins=[tidegate]))
    await runner.session_service.create_session(app_name="app", user_id="me", session_id="report")
    question = types.Content(role="user", parts=[types.Part(text="Read all pages.")])
    async for event in runner.run_async(user_id="me", session_id="report", new_message=question):
        if event.is_final_response() and event.content and event.content.parts:
            print(event.content.parts[0].text)
    print(tidegate.session("report").explain())


asyncio.run(main())
