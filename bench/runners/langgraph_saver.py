"""LangGraph's checkpointers in `bench/savers.py`: a graph with one node, whose state is the list of messages."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any

import psycopg
from langchain_core.messages import AIMessage, HumanMessage
from langgraph.checkpoint.postgres import PostgresSaver
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.graph import END, START, MessagesState, StateGraph
from psycopg.rows import dict_row
from saver_work import TABLE_BYTES, measure_folder, run_saver


class LangGraphSaver:
    def __init__(self, folder: str, url: str) -> None:
        self._folder, self._url = folder, url
        self._answer = ""
        self._names: set[str] = set()

    def open(self) -> None:
        self._link: Any
        if self._url:
            self._link = psycopg.connect(self._url, autocommit=True, prepare_threshold=0, row_factory=dict_row)
            saver: Any = PostgresSaver(self._link)
        else:
            self._link = sqlite3.connect(Path(self._folder) / "langgraph.db", check_same_thread=False)
            saver = SqliteSaver(self._link)
        saver.setup()
        graph = StateGraph(MessagesState)
        graph.add_node("say", lambda _: {"messages": [AIMessage(self._answer)]})
        graph.add_edge(START, "say")
        graph.add_edge("say", END)
        self._graph: Any = graph.compile(checkpointer=saver)

    def close(self) -> None:
        self._link.close()

    def take_turn(self, name: str, request: str, answer: str) -> None:
        self._names.add(name)
        self._answer = answer
        self._graph.invoke({"messages": [HumanMessage(request)]}, {"configurable": {"thread_id": name}})

    def _read(self, name: str) -> list[Any]:
        messages: list[Any] = self._graph.get_state({"configurable": {"thread_id": name}}).values["messages"]
        return messages

    def search(self, word: str) -> int:
        return sum(word in message.content for name in self._names for message in self._read(name))

    def reopen(self, name: str) -> int:
        return len(self._read(name))

    def measure_bytes(self) -> int:
        if not self._url:
            return measure_folder(self._folder)
        with psycopg.connect(self._url) as link:
            row = link.execute(TABLE_BYTES).fetchone()
        return int(row[0]) if row else 0


if __name__ == "__main__":
    run_saver(LangGraphSaver)
