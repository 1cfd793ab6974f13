"""The fake judges a request as the provider of that very model would."""

import asyncio

import httpx
import msgspec
import pytest

from tests.fake.server import KEY, Fake

# A call without the signature that Gemini gives along with it from version 3 on, and wants back.
UNSIGNED = {
    "contents": [
        {"role": "user", "parts": [{"text": "Which port?"}]},
        {"role": "model", "parts": [{"functionCall": {"name": "read", "args": {}, "id": "read"}}]},
        {
            "role": "user",
            "parts": [{"functionResponse": {"name": "read", "response": {"output": "8443"}, "id": "read"}}],
        },
    ],
    "tools": [
        {"functionDeclarations": [{"name": "read", "parametersJsonSchema": {"type": "object", "properties": {}}}]}
    ],
}


@pytest.mark.parametrize(("model", "status"), [("gemini-2.5-pro", 200), ("gemini-3-pro-preview", 400)])
def test_gemini_by_the_model_of_the_path(model: str, status: int) -> None:
    async def run() -> httpx.Response:
        async with Fake("gemini", ["It is 8443."]) as server, httpx.AsyncClient(trust_env=False, timeout=300) as client:
            url = f"{server.url}/models/{model}:generateContent"
            found = await client.post(url, content=msgspec.json.encode(UNSIGNED), headers={"x-goog-api-key": KEY})
            assert server.seen[0].model == model
            return found

    answer = asyncio.run(run())
    assert answer.status_code == status, answer.text
    assert "signature" in answer.text if status == 400 else "8443" in answer.text
