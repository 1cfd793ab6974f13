"""A whole agent against providers on loopback: how the rows about an agent are proved.

    talk = run_agent(tmp_path, "policy: digitorn", ["Four."], "What is two and two?")
    assert "two and two" in str(talk.bodies[-1])

The configuration calls the provider of the agent `main` and another one `small`. What each server was sent is in
`Talk.bodies` and `Talk.small_bodies`.
"""

import asyncio
from collections.abc import Callable, Iterable, Sequence
from contextlib import aclosing
from pathlib import Path
from typing import Any, NamedTuple

from tests.fake.server import KEY, Fake, Step
from tidegate import DataFolder, Session
from tidegate.agent.config.files import parse_config
from tidegate.agent.config.settings import AgentSettings
from tidegate.agent.loop import AgentEvent
from tidegate.agent.runtime import OpenAgent, UserNotice, open_agent
from tidegate.agent.tools.approval import ApprovalQuestion
from tidegate.core.messages import Call
from tidegate.models.scripted_provider import ScriptedAnswer

Json = dict[str, Any]
Steps = Iterable[Step] | Callable[[Json], Step]
MODELS = {
    "openai_chat": ("gpt-4o", "openai"),
    "openai_responses": ("gpt-4o", "openai_responses"),
    "anthropic": ("claude-sonnet-4-5", "anthropic"),
    "gemini": ("gemini-2.5-pro", "gemini"),
}


class Talk(NamedTuple):
    """What happened: the events of each turn, the requests of the main and of the small model, and the agent."""

    turns: list[list[AgentEvent | UserNotice]]
    bodies: list[Json]
    small_bodies: list[Json]
    agent: OpenAgent
    greeting: str

    @property
    def session(self) -> Session:
        return self.agent.session

    def events(self, kind: type[Any]) -> list[Any]:
        return [each for turn in self.turns for each in turn if isinstance(each, kind)]


def call(tool: str, arguments: str = "{}", ident: str = "c1", text: str = "") -> ScriptedAnswer:
    """A reply that calls one tool."""
    return ScriptedAnswer(text=text, calls=(Call(ident, tool, arguments),))


async def collect_turn(agent: OpenAgent, text: str) -> list[AgentEvent | UserNotice]:
    async with aclosing(agent.run_turn(text)) as turn:
        return [each async for each in turn]


def run_agent(
    folder: Path,
    config: str,
    steps: Steps,
    *texts: str,
    wire: str = "openai_chat",
    model: str = "",
    window: int | None = None,
    small: Steps = (),
    small_window: int | None = None,
    name: str = "build",
    ask: Callable[[ApprovalQuestion], bool] | None = None,
    after_turn: Callable[[OpenAgent], Any] | None = None,
    specialists: Sequence[str] = (),
    subagents: Sequence[AgentSettings] = (),
    loaded: dict[str, int] | None = None,
    variables: dict[str, str] | None = None,
) -> Talk:
    """Open the session `name` of the data folder in `folder`, send these texts, and close it.

    `window` and `small_window` are the servers' own limits, `loaded` what the first says of its models. `after_turn`
    may return something to await. A text that is written ahead is waited for after each turn.
    """

    async def run() -> Talk:
        data = DataFolder(folder / "data", secrets=[])
        async with (
            Fake(wire, steps, window=window, loaded=loaded) as main,
            Fake("openai_chat", small, window=small_window) as other,
        ):
            environment = {"MAIN_KEY": KEY, "SMALL_KEY": KEY, **(variables or {})}
            whole = _complete_config(config, wire, model, main.url, other.url)
            parsed = parse_config(whole, environment)
            others = [parse_config(whole, environment, agent=each) for each in specialists]
            try:
                async with open_agent(
                    parsed,
                    data=data,
                    name=name,
                    workspace=folder,
                    ask=None if ask is None else _make_async(ask),
                    specialists=others,
                    subagents=subagents,
                    environment=environment,
                ) as agent:
                    greeting = agent.greeting
                    turns = []
                    for text in texts:
                        turns.append(await collect_turn(agent, text))
                        waited = after_turn(agent) if after_turn is not None else None
                        if waited is not None:
                            await waited
                        writer = agent.session.state_notes.writer
                        while writer is not None and writer.is_busy:
                            await asyncio.sleep(0.001)
                    return Talk(turns, _bodies(main), _bodies(other), agent, greeting)
            finally:
                for _ in range(10):  # a server closes only connections that it has accepted
                    await asyncio.sleep(0)

    return asyncio.run(run())


def _complete_config(config: str, wire: str, model: str, main_url: str, small_url: str) -> str:
    """The configuration with the addresses of both servers, and with an agent if it has none."""
    usual, backend = MODELS[wire]
    if "agents:" not in config:
        config = (
            f"agents: [{{id: a, brain: {{provider: main, model: {model or usual}, backend: {backend}}}}}]\n{config}"
        )
    main = f"main: {{base_url: '{main_url}', key_env: MAIN_KEY}}"
    small = f"small: {{base_url: '{small_url}', key_env: SMALL_KEY}}"
    return f"{config}\nproviders: {{{main}, {small}}}\n"


def _bodies(server: Fake) -> list[Json]:
    """The requests to the model; other requests ask about the server, as for its list of models."""
    bodies = [seen.body for seen in server.seen if seen.raw]
    return [body for body in bodies if not body.keys().isdisjoint(("messages", "input", "contents"))]


def _make_async(ask: Callable[[ApprovalQuestion], bool]) -> Any:
    async def answer(question: ApprovalQuestion) -> bool:
        return ask(question)

    return answer
