"""A LangChain agent whose requests always fit the window. Set OPENAI_API_KEY, and OPENAI_BASE_URL if needed."""

from langchain.agents import create_agent
from langchain_core.runnables import RunnableConfig
from langchain_openai import ChatOpenAI
from langgraph.checkpoint.memory import InMemorySaver

from tidegate.integrations.langchain import TidegateMiddleware


def read(number: int) -> str:
    """Read a page of the report."""
    return f"Page {number}: the code is K{number:04d}.\n" + "The harbor log has nothing new for this day.\n" * 60


tidegate = TidegateMiddleware(window=16_000)
agent = create_agent(ChatOpenAI(model="gpt-4o"), [read], middleware=[tidegate], checkpointer=InMemorySaver())
config: RunnableConfig = {"configurable": {"thread_id": "report"}, "recursion_limit": 500}
result = agent.invoke({"messages": [{"role": "user", "content": "Read all pages."}]}, config)
print(result["messages"][-1].text)
print(tidegate.session("report").explain())
