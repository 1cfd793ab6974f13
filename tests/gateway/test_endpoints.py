"""Paths of other hosts of the same dialects: Azure, Vertex, Bedrock; and what is passed on unmanaged."""

import asyncio
import json
from pathlib import Path
from typing import NamedTuple

import httpx
import pytest

from tests.gateway.serving import DEADLINE, open_http, run_gateway
from tests.gateway.test_upstream_connection import ANSWER, JSON_TYPE, LENGTH, RawUpstream, serve_raw
from tidegate.datafolder.data_folder import DataFolder
from tidegate.gateway.app import Gateway
from tidegate.gateway.settings import Family, GatewaySettings, Upstream

TALK = [{"role": "user", "content": "hi"}]
CONTENTS = [{"role": "user", "parts": [{"text": "hi"}]}]


class Arrived(NamedTuple):
    line: str
    head: str
    sessions: list[str]


def forward(folder: Path, family: Family, path: str, body: object, **headers: str) -> Arrived:
    """Send a request with the upstream's own path; what arrived there, and the sessions that were made."""

    async def run() -> Arrived:
        upstream = RawUpstream(JSON_TYPE + LENGTH + b"\r\n" + ANSWER)
        async with serve_raw(upstream) as at:
            own = Upstream(family, family, at.url.removesuffix("/base"))
            async with run_gateway(folder, own) as running, open_http() as http:
                response = await http.post(running.url + path, json=body, headers=headers)
                assert (response.status_code, response.content) == (200, ANSWER)
                names = [session.name for session in running.data.store.sessions()]
        head = upstream.heads[0].decode()
        return Arrived(head.split("\r\n")[0], head, names)

    return asyncio.run(run())


VERTEX = "/v1/projects/p/locations/l/publishers"


@pytest.mark.parametrize(
    ("family", "path", "body"),
    [
        ("openai", "/openai/deployments/gpt-4o/chat/completions?api-version=2025-01-01", {"messages": TALK}),
        ("openai", "/openai/deployments/gpt-4o/responses?api-version=2025-01-01", {"input": TALK}),
        ("gemini", f"{VERTEX}/google/models/gemini-2.5-pro:generateContent", {"contents": CONTENTS}),
        ("gemini", f"{VERTEX}/anthropic/models/claude-opus-4-6:rawPredict", {"messages": TALK, "max_tokens": 9}),
        ("gemini", f"{VERTEX}/anthropic/models/claude-opus-4-6:streamRawPredict", {"messages": TALK, "max_tokens": 9}),
    ],
    ids=["Azure chat", "Azure responses", "Vertex Gemini", "Vertex Claude", "Vertex Claude stream"],
)
def test_paths_of_azure_and_vertex_are_managed(family: Family, path: str, body: object, tmp_path: Path) -> None:
    arrived = forward(tmp_path, family, path, body, **{"api-key": "azure-key-1234", "x-tidegate-session": "s"})
    assert arrived.line == f"POST {path} HTTP/1.1"
    assert "api-key: azure-key-1234" in arrived.head
    assert arrived.sessions == ["s"]


@pytest.mark.parametrize(
    ("family", "path", "body", "headers"),
    [
        ("anthropic", "/v1/messages", {"messages": TALK}, {"authorization": "AWS4-HMAC-SHA256 Credential=x"}),
        ("anthropic", "/model/anthropic.claude/invoke", {"messages": TALK}, {"authorization": "AWS4-HMAC-SHA256 x"}),
        ("anthropic", "/v1/messages/batches", {"requests": []}, {"anthropic-version": "2023-06-01"}),
        ("anthropic", "/v1/messages", {"messages": TALK, "thread": {"type": "create"}}, {}),
        (
            "anthropic",
            "/v1/messages?beta=true",
            {"messages": TALK, "thread": {"type": "continue", "previous_message_id": "msg_1"}},
            {},
        ),
        ("openai", "/v1/files", {"purpose": "batch"}, {}),
        ("openai", "/v1/batches", {"input_file_id": "x"}, {}),
        ("openai", "/v1/responses", {"input": "hi", "previous_response_id": "resp_1"}, {}),
        ("openai", "/v1/responses", {"input": "hi", "conversation": "conv_1"}, {}),
        ("openai", "/v1/chat/completions", {"messages": TALK, "n": 2}, {}),
        ("gemini", "/v1beta/models/m:generateContent", {"contents": [], "cachedContent": "cachedContents/1"}, {}),
        ("gemini", f"{VERTEX}/anthropic/models/count-tokens:rawPredict", {"messages": TALK}, {}),
    ],
)
def test_what_cannot_be_managed_is_passed_on_and_not_logged(
    family: Family, path: str, body: object, headers: dict[str, str], tmp_path: Path
) -> None:
    arrived = forward(tmp_path, family, path, body, **headers, **{"x-tidegate-session": "s"})
    assert arrived.line == f"POST {path} HTTP/1.1"
    assert arrived.sessions == []


def test_the_token_of_a_subscription_passes_like_a_key_and_is_not_kept(tmp_path: Path) -> None:
    token = "sk-ant-oat01-abcdefghijklmnop"
    headers = {"authorization": f"Bearer {token}", "anthropic-beta": "oauth-2025-04-20", "x-tidegate-session": "s"}
    arrived = forward(
        tmp_path, "anthropic", "/v1/messages", {"model": "m", "messages": TALK, "max_tokens": 9}, **headers
    )
    assert f"authorization: Bearer {token}" in arrived.head
    assert "anthropic-beta: oauth-2025-04-20" in arrived.head
    assert "x-tidegate" not in arrived.head
    kept = b"".join(file.read_bytes() for file in tmp_path.rglob("*") if file.is_file())
    assert token.encode() not in kept


@pytest.mark.seed("COW-12", fixed="the days are the gateway's own setting")
def test_retention_removes_old_sessions(tmp_path: Path) -> None:
    now = [0.0]

    async def run() -> None:
        upstream = RawUpstream(*[JSON_TYPE + LENGTH + b"\r\n" + ANSWER] * 2)
        async with serve_raw(upstream) as at:
            settings = GatewaySettings(upstreams=(at,), retention_days=7)
            for name, day in (("old", 1), ("new", 20)):
                now[0] = day * 86_400.0
                with DataFolder(tmp_path, clock=lambda: now[0]) as data:
                    gateway = Gateway(settings, data)
                    transport = httpx.ASGITransport(app=gateway)  # type: ignore[arg-type]
                    async with httpx.AsyncClient(
                        transport=transport, base_url="http://localhost", timeout=DEADLINE
                    ) as http:
                        body = {"model": "m", "max_tokens": 9, "messages": [*TALK, {"role": "user", "content": name}]}
                        response = await http.post("/v1/messages", json=body, headers={"x-tidegate-session": name})
                        assert response.status_code == 200, json.dumps(response.json())
                    await gateway.close()

    asyncio.run(run())
    with DataFolder(tmp_path, clock=lambda: now[0]) as data:
        assert [session.name for session in data.store.sessions()] == ["new"]
