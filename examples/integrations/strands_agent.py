"""A Strands agent whose requests always fit the window. Set OPENAI_API_KEY, and OPENAI_BASE_URL if needed."""

from strands import Agent, tool
from strands.models.openai import OpenAIModel

from tidegate.integrations.strands import TidegateConversation


@tool
def read(number: int) -> str:
    """Read a page of the report."""
    return f"Page {number}: the code is K{number:04d}.\n" + "The harbor log has nothing new for this day.\n" * 60


tidegate = TidegateConversation(window=16_000)
agent = Agent(
    OpenAIModel(model_id="gpt-4o"),
    tools=[read],
    conversation_manager=tidegate,
    agent_id="report",
    callback_handler=None,
)
print(agent("Read all pages."))
print(tidegate.session("report").explain())
