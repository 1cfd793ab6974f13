"""Measure the size on disk of a LangGraph graph that adds one message a step, with its SQLite checkpointer."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path
from typing import Any

from bench_conversation import make_text
from command_runner import Job, serve_commands
from langchain_core.messages import AIMessage
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.graph import END, START, MessagesState, StateGraph


class LangGraph:
    def steps(self, folder: str, count: int, size: int) -> Job:
        path = Path(folder) / "langgraph.db"
        texts = [make_text(index, size) for index in range(count)]
        raw = sum(len(json.dumps({"role": "assistant", "content": one})) + 1 for one in texts)

        def say(state: MessagesState) -> dict[str, Any]:
            return {"messages": [AIMessage(texts[len(state["messages"])])]}

        def more(state: MessagesState) -> str:
            return "say" if len(state["messages"]) < count else END

        def job() -> dict[str, int]:
            graph = StateGraph(MessagesState)
            graph.add_node("say", say)
            graph.add_edge(START, "say")
            graph.add_conditional_edges("say", more)
            db = sqlite3.connect(path, check_same_thread=False)
            runs = graph.compile(checkpointer=SqliteSaver(db))
            settings: Any = {"configurable": {"thread_id": "bench"}, "recursion_limit": count + 10}
            runs.invoke({"messages": []}, settings)
            db.close()
            return {"bytes": sum(file.stat().st_size for file in path.parent.glob("langgraph.db*")), "raw": raw}

        return job


if __name__ == "__main__":
    serve_commands(LangGraph())
