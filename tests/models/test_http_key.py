"""Where the HTTP provider sends a request, and that nobody but the server sees the key."""

import asyncio
import traceback

import pytest

from tests.fake.asking import NEVER, RICH, WIRES, asked, faulted, outcome, provider_of, session_of
from tests.fake.server import KEY, Bytes, CutAt, Fake, Step
from tests.fake.words import PAGE, refusal
from tidegate.core.errors import BadInput
from tidegate.models.http.provider import HttpProvider
from tidegate.wire.answers import encode_sse

# --- the key ------------------------------------------------------------------------------------------------------


@WIRES
def test_key_is_in_no_error_and_no_dump(wire: str) -> None:
    async def run() -> str:
        shown = ""
        steps: list[Step] = [refusal(wire, 400, f"bad key {KEY} in {{}}"), Bytes(b"data: " + KEY.encode() + b"\n\n")]
        error: dict[str, object] = {"type": "error", "error": {"message": f"key {KEY}"}}
        steps += [Bytes(encode_sse(wire, [error])), CutAt(RICH, 99), PAGE]
        async with Fake(wire, steps) as server:
            provider = provider_of(server)
            request = session_of(wire).prepare().to_bytes()
            for _ in steps:
                found = await outcome(provider, request)
                assert found.fault is not None
                shown += "".join(traceback.format_exception(found.fault)) + repr(vars(found.fault)) + repr(found.fault)
            shown += (
                repr(provider)
                + repr(vars(provider))
                + repr(vars(provider.client()))
                + repr(provider.client().headers.raw)
            )
            await provider.close()
        other = HttpProvider(wire, "m", base_url="http://127.0.0.1:9", key=KEY, retries=NEVER)
        refused = await outcome(other, b"{}")
        assert refused.fault is not None
        shown += "".join(traceback.format_exception(refused.fault))
        await other.close()
        return shown

    shown = asyncio.run(run())
    assert "masked" in shown
    assert KEY not in shown


def test_wrong_key() -> None:
    fault = faulted("anthropic", "Hello.", key="sk-other-key-000000000")
    assert (fault.kind, fault.status) == ("auth", 401)


# --- addresses ----------------------------------------------------------------------------------------------------


ADDRESSES = [
    ("openai_chat", "", "https://api.openai.com/v1/chat/completions"),
    ("openai_chat", "http://localhost:11434/v1/", "http://localhost:11434/v1/chat/completions"),
    ("openai_chat", "http://h/v1/chat/completions", "http://h/v1/chat/completions"),
    ("openai_responses", "", "https://api.openai.com/v1/responses"),
    ("mistral", "", "https://api.mistral.ai/v1/chat/completions"),
    ("deepseek", "", "https://api.deepseek.com/chat/completions"),
    ("anthropic", "", "https://api.anthropic.com/v1/messages"),
    ("anthropic", "http://h/v1", "http://h/v1/messages"),
    ("anthropic", "http://h/proxy", "http://h/proxy/v1/messages"),
    ("gemini", "http://h/v1beta", "http://h/v1beta/models/a%2Fb%3Fc:streamGenerateContent?alt=sse"),
]


@pytest.mark.parametrize(("wire", "base", "url"), ADDRESSES)
def test_addresses(wire: str, base: str, url: str) -> None:
    model = "models/a/b?c" if wire == "gemini" else "m"
    assert HttpProvider(wire, model, base_url=base).url == url


@pytest.mark.parametrize(
    "base",
    [
        "localhost:80",
        "ftp://h",
        "http://",
        "http://[::1",
        "http://h:x/v1",
        f"http://user:{KEY}@h/v1",
        f"http://h/?key={KEY}",
    ],
)
def test_addresses_that_are_refused(base: str) -> None:
    with pytest.raises(BadInput) as bad:
        HttpProvider("openai_chat", "m", base_url=base)
    assert KEY not in str(bad.value)


@pytest.mark.parametrize("key", ["sk-a\nb", "sk-\u201cquoted\u201d"])
def test_key_that_cannot_be_sent(key: str) -> None:
    with pytest.raises(BadInput, match="cannot be sent") as bad:
        HttpProvider("openai_chat", "m", key=key)
    assert key not in str(bad.value)


def test_more_headers_replace_ours() -> None:
    (_, server) = asked("anthropic", ["Hello."], headers={"Anthropic-Version": "2030-01-01", "x-trace": "7"})
    headers = server.seen[0].headers
    assert (headers["anthropic-version"], headers["x-trace"]) == ("2030-01-01", "7")
