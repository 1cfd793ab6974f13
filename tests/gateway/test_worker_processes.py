"""The processes of `tidegate serve --workers`: a killed one is replaced however often, one that cannot start is not."""

import os
import signal
import subprocess
import sys
from pathlib import Path

from tests.gateway.serving import DEADLINE

ROOT = Path(__file__).parents[2]
KILLS = 6
"""More than the five that end the gateway if workers end by themselves."""
PROGRAM = """
import socket, sys
from tests.gateway.worker_programs import fail, wait_for_the_end
from tidegate.core.errors import TidegateError
from tidegate.gateway.workers import Workers

if __name__ == "__main__":
    with socket.create_server(("127.0.0.1", 0)) as listener:
        try:
            Workers({serve}, listener, 1, lambda line: print(line, flush=True), clock=lambda: 0.0).run(1)
        except TidegateError as error:
            print(error, flush=True)
            sys.exit(3)
"""


def start_program(folder: Path, serve: str) -> "subprocess.Popen[str]":
    program = folder / "program.py"
    program.write_text(PROGRAM.format(serve=serve))
    environment = {**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'src'}"}
    return subprocess.Popen([sys.executable, program], stdout=subprocess.PIPE, text=True, env=environment)


def test_a_worker_that_is_killed_soon_after_its_start_is_replaced_each_time(tmp_path: Path) -> None:
    with start_program(tmp_path, "wait_for_the_end") as process:
        assert process.stdout is not None
        for _ in range(KILLS):
            word, _, pid = process.stdout.readline().partition(" ")
            assert word == "started"
            os.kill(int(pid), signal.SIGKILL)
            assert "starting another" in process.stdout.readline()
        assert process.stdout.readline().startswith("started ")
        process.terminate()
        assert process.wait(DEADLINE) == 0


def test_workers_that_end_by_themselves_again_and_again_end_the_gateway(tmp_path: Path) -> None:
    with start_program(tmp_path, "fail") as process:
        assert process.stdout is not None
        lines = process.stdout.read().splitlines()
        assert process.wait(DEADLINE) == 3
    assert [line.partition(" ended with ")[2] for line in lines[:-1]] == ["1; starting another"] * 5
    assert "5 workers in a row ended soon after their start" in lines[-1]


SERVE = """
import signal, sys
from pathlib import Path
from tidegate import DataFolder
from tidegate.gateway.app import Gateway
from tidegate.gateway.server import run_gateway
from tidegate.gateway.settings import GatewaySettings

class Watched(Gateway):
    async def __call__(self, scope, receive, send):
        print(sys.getswitchinterval(), flush=True)
        signal.raise_signal(signal.SIGTERM)
        await super().__call__(scope, receive, send)

settings = GatewaySettings(port=0)
with DataFolder(Path(sys.argv[1]), secrets=[]) as data:
    run_gateway(Watched(settings, data), settings)
"""


def test_threads_that_plan_give_way_to_the_event_loop_soon(tmp_path: Path) -> None:
    """With Python's own interval each read and write of the event loop waits 5 ms for each thread that computes."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    command = [sys.executable, "-c", SERVE, str(tmp_path / "data")]
    ran = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=DEADLINE, check=False)
    assert ran.stdout, ran.stderr
    assert float(ran.stdout.split()[0]) <= 0.001
