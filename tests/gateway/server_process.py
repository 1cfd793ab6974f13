"""`tidegate serve` in a process of its own."""

import asyncio
import os
import sys
from contextlib import suppress
from pathlib import Path

import httpx

from tests.gateway.serving import DEADLINE, open_http


async def start_gateway(folder: Path, port: int, *more: str) -> asyncio.subprocess.Process:
    command = [sys.executable, "-m", "tidegate", "serve", "--data", str(folder), "--port", str(port), *more]
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONWARNINGS"}
    return await asyncio.create_subprocess_exec(
        *command, env=environment, stderr=asyncio.subprocess.PIPE, cwd=folder, limit=10_000_000
    )


async def wait_until_ready(port: int) -> None:
    async with asyncio.timeout(DEADLINE), open_http() as http:
        while True:
            with suppress(httpx.HTTPError):
                if (await http.get(f"http://127.0.0.1:{port}/healthz")).status_code == 200:
                    return
            await asyncio.sleep(0.05)


async def end(process: asyncio.subprocess.Process) -> str:
    """What it printed."""
    process.terminate()
    _, printed = await process.communicate()
    return printed.decode()
