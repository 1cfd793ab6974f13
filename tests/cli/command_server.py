"""Run commands and programs in processes that have already loaded their modules, which takes a second otherwise.

One process loads them and forks for every command. It is for `run`, `chat` and `demo`, which hide the environment of
their process and so cannot run in the process of the tests, and for programs. Tests that start a command from nothing
start a process of their own.
"""

import atexit
import json
import os
import runpy
import signal
import socket
import subprocess
import sys
import threading
import traceback
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import NamedTuple

from tidegate.models.token_counters import create_counter

MODULES = (
    "anyio._backends._asyncio certifi concurrent.futures.thread ctypes h11 httpcore ruamel.yaml tidegate.agent.runtime"
    " tidegate.cli.data_location tidegate.cli.launch tidegate.cli.main tidegate.cli.run_output"
    " tidegate.datafolder.data_folder tidegate.models.http.provider tidegate.store.sqlite.store"
    " tidegate.terminal.signals tidegate.tui.plain.plain_chat"
).split()


class FinishedCommand(NamedTuple):
    """`status` is None if the process ended by a signal."""

    status: int | None
    out: str
    err: str


class CommandServer:
    """The process that forks. It loads `modules`, and ends when this process does."""

    def __init__(self, modules: Sequence[str] = ()) -> None:
        ours, theirs = socket.socketpair()
        with theirs:
            names = ("PATH", "HOME", "PYTHONPATH", *(name for name in os.environ if name.startswith("COVERAGE")))
            self._process = subprocess.Popen(
                [sys.executable, __file__, str(theirs.fileno()), *MODULES, *modules],
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                env={name: os.environ[name] for name in names if name in os.environ},
            )
        self._socket = ours
        self._turn = threading.Lock()

    def run(
        self, arguments: Sequence[object], folder: Path, environment: Mapping[str, str], stdin: str = ""
    ) -> FinishedCommand:
        """Run `tidegate` with these arguments to its end. The input must fit into a pipe."""
        return self._run("", arguments, folder, environment, stdin)

    def run_program(
        self, program: Path, arguments: Sequence[object], folder: Path, environment: Mapping[str, str]
    ) -> FinishedCommand:
        """Run a Python program to its end."""
        return self._run(str(program), arguments, folder, environment, "")

    def _run(
        self, program: str, arguments: Sequence[object], folder: Path, environment: Mapping[str, str], stdin: str
    ) -> FinishedCommand:
        (their_in, our_in), (our_out, their_out), (our_err, their_err) = (os.pipe() for _ in range(3))
        ours, theirs = socket.socketpair()
        with ours:
            with theirs, self._turn:
                socket.send_fds(self._socket, [b"+"], [theirs.fileno(), their_in, their_out, their_err])
            for each in (their_in, their_out, their_err):
                os.close(each)
            words = list(map(str, arguments))
            request = {"program": program, "words": words, "folder": str(folder), "environment": dict(environment)}
            ours.sendall(json.dumps(request).encode() + b"\n")
            with suppress(BrokenPipeError), open(our_in, "wb") as file:  # it may end without reading
                file.write(stdin.encode())
            errors: list[str] = []
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
def shared_command_server(*modules: str) -> CommandServer:
    """The server of this process that has loaded these modules besides those of the commands."""
    server = CommandServer(modules)
    atexit.register(server.close)
    return server


def _read_all(descriptor: int) -> str:
    with open(descriptor, "rb") as file:
        return file.read().decode()


def _serve(control: socket.socket, modules: Sequence[str]) -> None:
    for name in modules:
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
            _become_command(socket.socket(fileno=descriptors[0]), descriptors[1:])
        for each in descriptors:
            os.close(each)


def _become_command(caller: socket.socket, descriptors: Sequence[int]) -> None:
    """Take the streams, the folder and the environment of the command, run it, and end the process."""
    with caller.makefile("rb") as file:
        request = json.loads(file.readline())
    for place, each in enumerate(descriptors):
        os.dup2(each, place)
        os.close(each)
    sys.stdin, sys.stdout, sys.stderr = (os.fdopen(place, mode, encoding="utf-8") for place, mode in enumerate("rww"))
    os.chdir(request["folder"])
    os.environ.clear()
    os.environ.update(request["environment"])
    sys.path[0:1] = [path for path in os.environ.get("PYTHONPATH", "").split(os.pathsep) if path]
    status = _run_request(request["program"], request["words"])
    sys.stdout.flush()
    sys.stderr.flush()
    caller.sendall(str(status).encode())
    sys.exit(status)


def _run_request(program: str, words: list[str]) -> int:
    if not program:
        status: int = import_module("tidegate.cli.main").main(words)
        return status
    sys.argv = [program, *words]
    try:
        runpy.run_path(program, run_name="__main__")
    except SystemExit as leave:
        return leave.code if isinstance(leave.code, int) else int(leave.code is not None)
    except BaseException:  # noqa: BLE001 - as the interpreter does
        traceback.print_exc()
        return 1
    return 0


if __name__ == "__main__":
    _serve(socket.socket(fileno=int(sys.argv[1])), sys.argv[2:])
