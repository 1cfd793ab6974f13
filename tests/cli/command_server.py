"""Run commands in processes that have already loaded their modules, which takes a second otherwise.

One process loads them and forks for every command. It is for `run` and `chat`, which hide the environment of their
process and so cannot run in the process of the tests. Tests that start a command from nothing use `Desk.start`.
"""

import atexit
import json
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Mapping
from contextlib import suppress
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import NamedTuple

from tidegate.models.token_counters import create_counter

MODULES = (
    "anyio._backends._asyncio certifi concurrent.futures.thread ctypes h11 httpcore ruamel.yaml tidegate.agent.runtime"
    " tidegate.cli.config tidegate.cli.data_location tidegate.cli.launch tidegate.cli.main tidegate.cli.run_output"
    " tidegate.datafolder.data_folder tidegate.models.http.provider tidegate.store.sqlite.store"
    " tidegate.terminal.signals tidegate.tui.plain.plain_chat"
).split()


class FinishedCommand(NamedTuple):
    """`status` is None if the process ended by a signal."""

    status: int | None
    out: bytes
    err: bytes


class CommandServer:
    """The process that forks. It ends when this process does."""

    def __init__(self) -> None:
        ours, theirs = socket.socketpair()
        with theirs:
            environment = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
            coverage = {name: value for name, value in os.environ.items() if name.startswith("COVERAGE")}
            self._process = subprocess.Popen(
                [sys.executable, __file__, str(theirs.fileno())],
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                env={**environment, **coverage},
            )
        self._socket = ours
        self._turn = threading.Lock()

    def run(self, arguments: list[str], folder: Path, environment: Mapping[str, str], stdin: bytes) -> FinishedCommand:
        """Run a command to its end. The input must fit into a pipe."""
        pipes = [os.pipe() for _ in range(3)]
        (their_in, our_in), (our_out, their_out), (our_err, their_err) = pipes
        ours, theirs = socket.socketpair()
        with ours:
            with theirs, self._turn:
                socket.send_fds(self._socket, [b"+"], [theirs.fileno(), their_in, their_out, their_err])
            for each in (their_in, their_out, their_err):
                os.close(each)
            request = {"arguments": arguments, "folder": str(folder), "environment": dict(environment)}
            ours.sendall(json.dumps(request).encode() + b"\n")
            with suppress(BrokenPipeError), open(our_in, "wb") as file:  # it may end without reading
                file.write(stdin)
            errors: list[bytes] = []
            reader = threading.Thread(target=lambda: errors.append(_read_all(our_err)))
            reader.start()
            out = _read_all(our_out)
            reader.join()
            status = ours.recv(10)
        return FinishedCommand(int(status) if status else None, out, errors[0])

    def close(self) -> None:
        self._socket.close()
        self._process.wait()


@cache
def shared_command_server() -> CommandServer:
    """The server of this process."""
    server = CommandServer()
    atexit.register(server.close)
    return server


def _read_all(descriptor: int) -> bytes:
    with open(descriptor, "rb") as file:
        return file.read()


def _serve(control: socket.socket) -> None:
    for name in MODULES:
        import_module(name)
    create_counter("gpt-4o").count_text("qzxwv")  # loads the vocabulary, and what is needed for words outside it
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # ended children leave no zombies
    while True:
        data, descriptors, _, _ = socket.recv_fds(control, 1, 4)
        if not data:
            return
        if os.fork() == 0:
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            control.close()
            _run(socket.socket(fileno=descriptors[0]), descriptors[1:])
        for each in descriptors:
            os.close(each)


def _run(caller: socket.socket, descriptors: list[int]) -> None:
    """Become the command: its streams, its folder and its environment. Ends the process."""
    with caller.makefile("rb") as file:
        request = json.loads(file.readline())
    for place, each in enumerate(descriptors):
        os.dup2(each, place)
        os.close(each)
    sys.stdin, sys.stdout, sys.stderr = (os.fdopen(place, mode, encoding="utf-8") for place, mode in enumerate("rww"))
    os.chdir(request["folder"])
    os.environ.clear()
    os.environ.update(request["environment"])
    main = import_module("tidegate.cli.main").main
    status = main(request["arguments"])
    sys.stdout.flush()
    sys.stderr.flush()
    caller.sendall(str(status).encode())
    sys.exit(status)


if __name__ == "__main__":
    _serve(socket.socket(fileno=int(sys.argv[1])))
