"""A chat as a face has it: an agent that is opened, and opened again wherever an answer asks for that."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import aclosing, asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple

from tidegate import DataFolder
from tidegate.agent.config.files import locate_config_files
from tidegate.agent.config.launch import LaunchOptions
from tidegate.agent.runtime import OpenAgent, open_agent
from tidegate.commands.actions import (
    AttachOutput,
    ChooseTheme,
    CommandAction,
    PickModel,
    PickSession,
    Quit,
    SetPlanMode,
    apply_change,
)
from tidegate.commands.catalog import create_command_registry
from tidegate.commands.registry import CommandAnswer, make_command_context
from tidegate.models.scripted_provider import ScriptedProvider, ScriptStep

KEY = "sk-proj-" + "a1B2" * 10
USER = """\
# mine, by hand
agents:
  - id: main  # the only one
    model: {provider: openai, model: gpt-4o}
window: 20000
"""
REGISTRY = create_command_registry()


class Chat(NamedTuple):
    """What a face has: it opens the agent, hands lines to the registry, and does what an answer asks of it."""

    tmp: Path
    data: DataFolder
    environment: dict[str, str]

    @property
    def file(self) -> Path:
        return self.tmp / "conf" / "tidegate" / "tidegate.yaml"

    @property
    def project(self) -> Path:
        return self.tmp / "work" / "tidegate.yaml"

    def opening(self, **more: Any) -> LaunchOptions:
        return LaunchOptions(
            locate_config_files(self.tmp / "work", self.environment), self.environment, "talk"
        )._replace(**more)

    @asynccontextmanager
    async def open(self, opening: LaunchOptions, steps: Sequence[ScriptStep] = ()) -> AsyncIterator[OpenAgent]:
        read = opening.load_config()
        agent_model = read.config.agent.model
        wire = "anthropic" if agent_model.provider == "anthropic" else "openai_chat"
        provider = ScriptedProvider(wire, steps, model=agent_model.model)
        async with open_agent(
            read.config,
            data=self.data,
            name=opening.session_name,
            workspace=self.tmp / "work",
            provider=provider,
            environment=self.environment,
        ) as agent:
            yield agent

    async def say(self, agent: OpenAgent, text: str) -> None:
        async with aclosing(agent.run_turn(text)) as turn:
            async for _ in turn:
                pass

    def answers(
        self, *lines: str, opening: LaunchOptions | None = None, then: "Then | None" = None
    ) -> list[CommandAnswer]:
        """Answer these lines in one chat, opening it again wherever an answer says so."""

        async def run() -> list[CommandAnswer]:
            now, told = opening or self.opening(), list[CommandAnswer]()
            for line in lines:
                async with self.open(now) as agent:
                    told.append(await REGISTRY.answer(line, make_command_context(agent, self.data, now)))
                now = open_again(now, told[-1].action)
            async with self.open(now) as agent:
                if then is not None:
                    await then(agent)
            return told

        return asyncio.run(run())


def open_again(options: LaunchOptions, action: CommandAction | None) -> LaunchOptions:
    """The options an app opens the agent with after this action."""
    return (
        options
        if action is None
        or isinstance(action, AttachOutput | ChooseTheme | SetPlanMode | PickModel | PickSession | Quit)
        else apply_change(options, action)
    )


Then = Callable[[OpenAgent], Awaitable[None]]


def chat_in(tmp_path: Path) -> Iterator[Chat]:
    data = DataFolder(tmp_path / "data", secrets=[KEY])
    found = Chat(tmp_path, data, {"XDG_CONFIG_HOME": str(tmp_path / "conf"), "OPENAI_API_KEY": KEY})
    found.file.parent.mkdir(parents=True)
    found.file.write_text(USER)
    (tmp_path / "work").mkdir()
    yield found
    data.close()
