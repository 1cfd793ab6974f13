"""An agent of pydantic-ai whose requests always fit the window. Set OPENAI_API_KEY, and OPENAI_BASE_URL if needed."""

from pydantic_ai import Agent
from pydantic_ai.usage import UsageLimits

from tidegate.integrations.pydantic_ai import TidegateCapability


def read(number: int) -> str:
    """Read a page of the report."""
    return f"Page {number}: the code is K{number:04d}.\n" + "The harbor log has nothing new for this day.\n" * 60


tidegate = TidegateCapability(window=16_000)
agent = Agent("openai-chat:gpt-4o", tools=[read], capabilities=[tidegate])
limits = UsageLimits(request_limit=None)
result = agent.run_sync("Read all pages.", conversation_id="report", usage_limits=limits)

print(result.output)
print(tidegate.session("report").explain())
