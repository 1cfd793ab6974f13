"""A folder in which commands are run as scripts run them, against the strict server."""

import asyncio
import json
import os
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, NamedTuple

from tests.cli.command_server import shared_command_server
from tests.fake.server import KEY, Fake, Step
from tidegate.agent.config.files import locate_config_files
from tidegate.agent.config.trust import trust_project_file

TIDEGATE = [sys.executable, "-m", "tidegate.cli.main"]
CONFIG = """\
window: 16000
agents:
  - id: main
    model: {provider: openai, model: gpt-4o}
  - id: other
    model: {provider: openai, model: gpt-4o-mini, config: {api_key: "sk-live-Zx81kqPw02LmnB7r"}}
"""


class Ran(NamedTuple):
    status: int | None
    out: str
    err: str

    @property
    def lines(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.out.splitlines()]


class Desk:
    """A folder to work in, with a configuration and an environment that leads to one server."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.environment = {
            "PATH": os.environ["PATH"],
            "HOME": str(folder / "home"),
            "XDG_CONFIG_HOME": str(folder / "home"),
            "TIDEGATE_DATA": str(folder / "data"),
            "OPENAI_API_KEY": KEY,
            "NO_PROXY": "127.0.0.1",
            **{name: os.environ[name] for name in ("PYTHONPATH",) if name in os.environ},  # the copy of a mutant
        }
        self.configure(CONFIG)

    def configure(self, text: str, folder: Path | None = None) -> None:
        folder = folder or self.folder
        (folder / "tidegate.yaml").write_text(text)
        trust_project_file(locate_config_files(folder, self.environment))

    async def start(
        self, *arguments: str, stdout: int = asyncio.subprocess.PIPE, folder: Path | None = None
    ) -> asyncio.subprocess.Process:
        pipe, folder = asyncio.subprocess.PIPE, folder or self.folder
        return await asyncio.create_subprocess_exec(
            *TIDEGATE, *arguments, stdin=pipe, stdout=stdout, stderr=pipe, cwd=folder, env=self.environment
        )

    async def run(self, *arguments: str, stdin: str = "", folder: Path | None = None) -> Ran:
        process = await self.start(*arguments, folder=folder)
        out, err = await process.communicate(stdin.encode())
        assert b"Traceback" not in out + err
        return Ran(process.returncode, out.decode(), err.decode())

    def serve(self, steps: list[Step], act: Callable[[Fake], Awaitable[None]]) -> Fake:
        async def serving() -> Fake:
            async with Fake("openai_chat", steps, window=16_000) as server:
                self.environment["TIDEGATE_OPENAI_BASE_URL"] = server.url
                await act(server)
                return server

        return asyncio.run(serving())


class ForkedDesk(Desk):
    """Its commands run in processes that need not load their modules again."""

    async def run(self, *arguments: str, stdin: str = "", folder: Path | None = None) -> Ran:
        done = await asyncio.to_thread(
            shared_command_server().run, arguments, folder or self.folder, self.environment, stdin
        )
        assert "Traceback" not in done.out + done.err
        return Ran(*done)


def asked(server: Fake) -> list[dict[str, Any]]:
    return [seen.body for seen in server.seen if seen.raw]
