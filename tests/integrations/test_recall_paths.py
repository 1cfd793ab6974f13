"""Recall by words gives the same first hits on every path: library, agent, gateway, MCP, command and adapter."""

import asyncio
import json
import re
from pathlib import Path
from typing import Any

import pytest

from tests.agent.tools.workshop import make_context, use
from tests.cli.calling import called
from tests.fake.server import Fake
from tests.gateway.scripted_client import ScriptedClient
from tests.gateway.serving import open_http, run_gateway, upstream_of
from tidegate.agent.tools.context_tools import RECALL_TOOL
from tidegate.core.messages import Call
from tidegate.datafolder.data_folder import DataFolder
from tidegate.integrations.threads import ThreadSessions
from tidegate.wire.streaming.scripted_answer import ScriptedAnswer

pytestmark = pytest.mark.sdk

WORDS = "configured retries of the uploads"
SAID = (
    "Good morning.",
    "Set the retry of the uploader to 7 in src/net/upload.py.",
    "Then rename fetchUser.",
    "How many retries does the downloader have?",
    "The upload failed twice, it was configured wrongly.",
    "What is for lunch?",
)


def hits_of(text: str) -> list[str]:
    """The first three hits of an answer."""
    return re.findall(r"^(m\d+) (?:user|assistant|tool)\b", text, re.MULTILINE)[:3]


async def ask_gateway(folder: Path) -> str:
    """Say everything through the gateway, then let the model recall. Returns the result that the model gets."""
    answers = [ScriptedAnswer(text=f"Answer {number}.") for number in range(len(SAID))]
    recall = ScriptedAnswer(text="", calls=(Call("r1", "recall", json.dumps({"what": WORDS})),))
    async with Fake("openai_chat", [*answers, recall, ScriptedAnswer(text="Seven.")]) as fake:
        async with run_gateway(folder, upstream_of(fake), recall=True) as running, open_http() as http:
            client = ScriptedClient("openai_chat", running.url, http, {"x-tidegate-session": "s"})
            for text in (*SAID, "Now look it up."):
                client.say(text)
                await client.turn("done")
        body: dict[str, Any] = fake.seen[-1].body
    return next(str(message["content"]) for message in body["messages"] if message["role"] == "tool")


async def ask_mcp(data: DataFolder, name: str) -> str:
    from mcp import Client

    from tidegate.integrations.mcp_server import create_mcp_server

    async with Client(create_mcp_server(data, name)) as client:
        result = await client.call_tool("recall", {"what": WORDS})
    return "".join(block.text for block in result.content if block.type == "text")


def test_every_path_gives_the_same_first_hits(tmp_path: Path) -> None:
    answers = {"gateway": asyncio.run(ask_gateway(tmp_path / "data"))}
    with DataFolder(tmp_path / "data") as data:
        (info,) = data.store.sessions()
        answers["mcp"] = asyncio.run(ask_mcp(data, info.name))
        session = data.open(info.name, "gpt-4o")
        answers["library"] = session.history.search(WORDS).text
        context = make_context(tmp_path, session=session, session_name=info.name, data=data)
        answers["agent"] = use(RECALL_TOOL, context, what=WORDS).text
        session.close()
    threads = ThreadSessions(tmp_path / "data", session=info.name)
    answers["adapter"] = threads.recall(info.name, WORDS)
    threads.close()
    answers["command"] = called("recall", info.name, WORDS, "--data", tmp_path / "data").stdout
    hits = {path: hits_of(text) for path, text in answers.items()}
    assert len(set(map(tuple, hits.values()))) == 1, hits
    assert "The upload failed twice" in answers["library"].split("\n")[0]
