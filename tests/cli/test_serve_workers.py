"""`tidegate serve --workers 2` on a data folder: both serve the port, a killed one is replaced, all end together."""

import asyncio
import os
import signal
from pathlib import Path

import pytest

from tests.fake.server import Fake
from tests.free_port import find_free_port
from tests.gateway.scripted_client import ScriptedClient
from tests.gateway.serving import open_http
from tests.gateway.test_killed import ask_streamed, next_step, start_gateway
from tidegate.datafolder.data_folder import DataFolder


def find_workers(pid: int) -> list[int]:
    """The children that serve, without the process that multiprocessing keeps for itself."""
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [int(child) for child in children if b"spawn_main" in Path(f"/proc/{child}/cmdline").read_bytes()]


@pytest.mark.exhaustive
def test_workers_share_a_port_and_are_replaced(tmp_path: Path) -> None:
    async def run() -> None:
        async with Fake("anthropic", next_step, window=16_000) as fake, open_http() as http:
            port = find_free_port()
            gateway = await start_gateway(tmp_path, port, "--upstream", f"anthropic={fake.host}", "--workers", "2")
            before = find_workers(gateway.pid)
            assert len(before) == 2
            os.kill(before[0], signal.SIGKILL)
            while len(now := find_workers(gateway.pid)) < 2 or before[0] in now:
                await asyncio.sleep(0.05)
            client = ScriptedClient("anthropic", f"http://127.0.0.1:{port}", http, {"x-tidegate-session": "s"})
            client.say("start")
            await ask_streamed(client)
            gateway.terminate()
            assert await gateway.wait() == 0
            assert not any(Path(f"/proc/{worker}").exists() for worker in now)

    asyncio.run(run())
    with DataFolder(tmp_path) as data:
        assert data.open_log("s").head > 0
