"""A local server is told to load a model with the window that is set, where its interface allows that."""

import asyncio
import json
from contextlib import AsyncExitStack
from typing import NamedTuple

import pytest

from tests.models.stub_server import Answers, Stub, listing
from tidegate.agent.config.files import parse_config
from tidegate.agent.provider_connection import connect_provider

LOADED = {"type": "llm", "instance_id": "qwen", "status": "loaded", "load_time_seconds": 2.1}


def studio(*loaded: int, answer: object = LOADED) -> Answers:
    instances = [{"id": "qwen", "config": {"context_length": tokens}} for tokens in loaded]
    entry = {"type": "llm", "key": "qwen", "loaded_instances": instances, "max_context_length": 40_000}
    return {**listing({"id": "qwen"}), "/api/v1/models": {"models": [entry]}, "/api/v1/models/load": answer}


class Connected(NamedTuple):
    window: int | None
    asked: list[object]


def connect(answers: Answers, config: str) -> Connected:
    """Connect an agent of this configuration to the server; what it was asked to load, and the window."""

    async def run() -> Connected:
        async with Stub(answers) as server, AsyncExitStack() as stack:
            environment = {
                "TIDEGATE_LMSTUDIO_BASE_URL": f"{server.root}/v1",
                "TIDEGATE_VLLM_BASE_URL": f"{server.root}/v1",
            }
            read = parse_config(config, environment)
            connection = await connect_provider(
                read, read.agent.model, environment, None, stack=stack, window=read.window
            )
            posts = [json.loads(each.body) for each in server.seen if each.method == "POST"]
            return Connected(connection.window.tokens, posts)

    return asyncio.run(run())


AGENT = "agents: [{id: a, model: {provider: lmstudio, model: qwen}}]\n"


@pytest.mark.seed("JUT-21")
@pytest.mark.parametrize(
    ("answers", "config", "window", "loaded"),
    [
        pytest.param(studio(), "window: 20000\n", 20_000, [20_000], id="not loaded yet"),
        pytest.param(studio(), "models: {qwen: {window: 20000}}\n", 20_000, [20_000], id="set for the model"),
        pytest.param(studio(), "window: 90000\n", 40_000, [40_000], id="more than the model holds"),
        pytest.param(studio(8_192), "window: 20000\n", 8_192, [], id="loaded with less: it stays"),
        pytest.param(studio(30_000), "window: 20000\n", 20_000, [], id="loaded with more"),
        pytest.param(studio(), "", None, [], id="no window is set"),
        pytest.param(studio(answer={"error": "no memory"}), "window: 20000\n", 20_000, [20_000], id="it fails"),
        pytest.param(listing({"id": "qwen"}), "window: 20000\n", 20_000, [], id="an older server"),
    ],
)
def test_a_model_is_loaded_with_the_window_that_is_set(
    answers: Answers, config: str, window: int | None, loaded: list[int]
) -> None:
    done = connect(answers, AGENT + config)
    assert done == (window, [{"model": "qwen", "context_length": tokens} for tokens in loaded])


@pytest.mark.seed("JUT-21")
@pytest.mark.parametrize(
    ("provider", "loads", "asks"),
    [
        ("lmstudio", "", 1),  # an entry that sets something else, such as the address
        ("lmstudio", ", loads_models: false", 0),
        ("vllm", ", loads_models: true", 1),
    ],
)
def test_an_entry_of_the_provider_says_whether_it_is_told(provider: str, loads: str, asks: int) -> None:
    entry = f"providers: {{{provider}: {{headers: {{x: y}}{loads}}}}}\n"
    done = connect(studio(), AGENT.replace("lmstudio", provider) + entry + "window: 20000\n")
    assert len(done.asked) == asks


def test_other_servers_are_not_told() -> None:
    done = connect(studio(), AGENT.replace("lmstudio", "vllm") + "window: 20000\n")
    assert done.asked == []
