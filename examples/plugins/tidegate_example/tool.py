"""A tool: counts the words of a text."""

from typing import Annotated

import msgspec
from msgspec import Meta

from tidegate.agent.tools.tool import FunctionTool, ToolContext, ToolResult


class CountWordsArguments(msgspec.Struct):
    text: Annotated[str, Meta(description="the text whose words to count")]


async def count_words(arguments: CountWordsArguments, context: ToolContext) -> ToolResult:
    return ToolResult(f"{len(arguments.text.split())} words")


COUNT_WORDS = FunctionTool("count_words", "Count the words of a text.", CountWordsArguments, count_words)
