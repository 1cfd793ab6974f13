"""A project's folder with its `tidegate.yaml`, a user with one of their own, and an agent that is opened there."""

import asyncio
import json
import os
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import aclosing, chdir, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from tests.cli.calling import called
from tests.cli.command_server import shared_command_server
from tidegate import DataFolder
from tidegate.agent.config.files import locate_config_files
from tidegate.agent.config.launch import LaunchOptions, LoadedConfig
from tidegate.agent.config.trust import trust_project_file
from tidegate.agent.runtime import OpenAgent, UserNotice, open_agent
from tidegate.core.messages import Call
from tidegate.models.scripted_provider import ScriptedAnswer, ScriptedProvider, ScriptStep

AGENT = "agents: [{id: main, model: {provider: openai, model: gpt-4o}}]\n"
KEY = "sk-proj-" + "c4D5" * 10


DEADLINE = 300
"""Seconds after which a process that is waited for has failed. It only ends a test that hangs."""


@contextmanager
def surroundings(folder: Path, environment: Mapping[str, str]) -> Iterator[None]:
    """This process in a folder and with these environment variables alone, as a command would be started."""
    before = dict(os.environ)
    with chdir(folder):
        try:
            os.environ.clear()
            os.environ.update(environment)
            yield
        finally:
            os.environ.clear()
            os.environ.update(before)


class Talk(NamedTuple):
    """What the provider was sent, and what the user was told."""

    requests: list[str]
    notices: list[str]

    @property
    def tools(self) -> set[str]:
        return {each["function"]["name"] for each in json.loads(self.requests[0]).get("tools", [])}


class Project:
    def __init__(self, folder: Path) -> None:
        self.folder = folder / "work"
        self.folder.mkdir()
        self.data = folder / "data"
        self.environment = {
            "PATH": os.environ["PATH"],
            "HOME": str(folder),
            "XDG_CONFIG_HOME": str(folder / "conf"),
            "TIDEGATE_DATA": str(self.data),
            "OPENAI_API_KEY": KEY,
        }
        self.files = locate_config_files(self.folder, self.environment)
        self.files.user.parent.mkdir(parents=True)

    def write(self, *, user: str = AGENT, project: str = "", trusted: bool = False) -> "Project":
        self.files.user.write_text(user)
        self.files.project.write_text(project)
        if trusted:
            trust_project_file(self.files)
        return self

    def opening(self, *, named: bool = False) -> LaunchOptions:
        asked = str(self.files.project) if named else ""
        return LaunchOptions(
            locate_config_files(self.folder, self.environment, explicit_file=asked),
            self.environment,
            session_name="talk",
        )

    def read(self, *, named: bool = False) -> LoadedConfig:
        """The configuration, as every command reads it."""
        return self.opening(named=named).load_config()

    def talk(self, steps: Sequence[ScriptStep] = ("Hi.",), *said: str, named: bool = False) -> Talk:
        """Open the agent and say something. Nobody is there to be asked, so what would be asked is denied."""

        async def run() -> Talk:
            read = self.read(named=named)
            provider = ScriptedProvider("openai_chat", steps, model=read.config.agent.model.model)
            data, notices = DataFolder(self.data, secrets=[]), list[str]()
            try:
                async with open_agent(
                    read.config,
                    data=data,
                    name="talk",
                    workspace=self.folder,
                    provider=provider,
                    environment=self.environment,
                ) as agent:
                    for text in said or ("Hello.",):
                        notices += await _say(agent, text)
            finally:
                data.close()
            return Talk([request.decode() for request in provider.requests], notices)

        return asyncio.run(run())

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run a command in the project's folder. `run` is a process: it hides the environment of its process."""
        if arguments[0] != "run":
            with surroundings(self.folder, self.environment):
                return called(*arguments)
        done = shared_command_server().run(arguments, self.folder, self.environment)
        return subprocess.CompletedProcess(arguments, -1 if done.status is None else done.status, done.out, done.err)

    def shown(self) -> dict[str, dict[str, Any]]:
        """What `tidegate config` says, by the names of the settings."""
        ran = self.run("config", "--json")
        assert ran.returncode == 0, ran.stderr
        return {each["name"]: each for each in json.loads(ran.stdout)}


async def _say(agent: OpenAgent, text: str) -> list[str]:
    async with aclosing(agent.run_turn(text)) as turn:
        return [each.text async for each in turn if isinstance(each, UserNotice)]


def calls(name: str, /, **arguments: str) -> ScriptedAnswer:
    """An answer that calls one tool."""
    return ScriptedAnswer(calls=(Call("c1", name, json.dumps(arguments)),))
