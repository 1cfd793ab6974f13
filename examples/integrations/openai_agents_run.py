"""A run of OpenAI Agents whose requests always fit the window. Set OPENAI_API_KEY, and OPENAI_BASE_URL if needed."""

from agents import Agent, RunConfig, Runner, function_tool, set_tracing_disabled

from tidegate.integrations.openai_agents import TidegateFilter

set_tracing_disabled(True)


@function_tool
def read(number: int) -> str:
    """Read a page of the report."""
    return f"Page {number}: the code is K{number:04d}.\n" + "The harbor log has nothing new for this day.\n" * 60


tidegate = TidegateFilter(window=16_000)
agent = Agent(name="reader", model="gpt-4o", tools=[read, tidegate.recall_tool()])
result = Runner.run_sync(
    agent,
    "Read all pages.",
    run_config=RunConfig(call_model_input_filter=tidegate),
    hooks=tidegate.hooks,
    session=tidegate.make_session("report"),
    max_turns=500,
)
print(result.final_output)
print(tidegate.session("report").explain())
