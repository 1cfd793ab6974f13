"""A provider that repeats the last user message. It needs no network."""

import json
from collections.abc import AsyncGenerator

from tidegate.agent.config.provider_target import ProviderTarget
from tidegate.models.provider import Delta, Reply


class EchoProvider:
    wire = "openai_chat"

    def __init__(self, model: str) -> None:
        self.model = model

    async def stream(self, request: bytes, /) -> AsyncGenerator[Delta | Reply, None]:
        messages = json.loads(request)["messages"]
        asked = next((each["content"] for each in reversed(messages) if each["role"] == "user"), "")
        text = f"You said: {asked}"
        yield Delta("text", text)
        yield Reply([{"role": "assistant", "content": text}], usage={}, stop="end", model=self.model)

    async def close(self) -> None:
        pass


def make_echo_provider(target: ProviderTarget) -> EchoProvider:
    return EchoProvider(target.model or "echo-1")
