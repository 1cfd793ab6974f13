"""LangGraph: many threads of a graph with the PostgreSQL checkpointer, a task for each, over a pool of 8 connections.

`aupdate_state` writes one checkpoint for each message: less than a run of the graph would write.
"""

from __future__ import annotations

import asyncio
import sys
from typing import Any

from langchain_core.messages import AIMessage, HumanMessage
from langgraph.checkpoint.postgres.aio import AsyncPostgresSaver
from langgraph.graph import END, START, MessagesState, StateGraph
from psycopg.rows import dict_row
from psycopg_pool import AsyncConnectionPool
from team_figures import Figures, allow_descriptors, run_team

KEYWORDS = {"autocommit": True, "prepare_threshold": 0, "row_factory": dict_row}


async def main(url: str, sessions: int, seconds: float) -> Figures:
    pool: Any = AsyncConnectionPool(url, max_size=8, kwargs=KEYWORDS, open=False, timeout=600)
    async with pool:
        saver = AsyncPostgresSaver(pool)
        await saver.setup()
        graph = StateGraph(MessagesState)
        graph.add_node("say", lambda _: {})
        graph.add_edge(START, "say")
        graph.add_edge("say", END)
        runs = graph.compile(checkpointer=saver)
        settings: list[Any] = [{"configurable": {"thread_id": f"s{number}"}} for number in range(sessions)]

        async def add(number: int, text: str, turn: int) -> None:
            message = (HumanMessage, AIMessage)[turn % 2](text)
            await runs.aupdate_state(settings[number], {"messages": [message]}, as_node="say")

        async def read(number: int) -> None:
            await runs.aget_state(settings[number])

        return await run_team(sessions, seconds, add, read)


if __name__ == "__main__":
    allow_descriptors()
    asyncio.run(main(sys.argv[1], int(sys.argv[2]), float(sys.argv[3]))).print_json()
