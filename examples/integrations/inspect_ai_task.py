"""An inspect_ai task whose agent compacts with tidegate. Run: inspect eval inspect_ai_task.py --model openai/gpt-4o"""

from inspect_ai import Task, task
from inspect_ai.agent import react
from inspect_ai.dataset import Sample
from inspect_ai.tool import Tool, tool

from tidegate.integrations.inspect_ai import TidegateCompaction


@tool
def read() -> Tool:
    async def execute(number: int) -> str:
        """Read a page of the report.

        Args:
            number: the number of the page
        """
        return f"Page {number}: the code is K{number:04d}.\n" + "The harbor log has nothing new for this day.\n" * 60

    return execute


@task
def report() -> Task:
    tidegate = TidegateCompaction(threshold=16_000)
    return Task(
        dataset=[Sample(input="Read all pages.")],
        solver=react(tools=[read(), tidegate.recall_tool().as_tool()], compaction=tidegate),
    )
