"""A peer as a process: its own code in its own interpreter, given recordings over a pipe."""

import json
import os
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Sequence
from typing import IO, Any, NamedTuple

import msgspec

from tidegate.core.errors import BadInput, TidegateError
from tidegate.lab.peer_registry import find_peer, get_interpreter, get_scripts_folder
from tidegate.lab.scoring.contender_request import ContenderRequest, SummaryUsage
from tidegate.lab.worker_pool import StopCheck

_Json = dict[str, Any]

_PASSED_VARIABLES = ("PATH", "HOME", "TMPDIR", "LANG", "LC_ALL", "LD_LIBRARY_PATH")
"""The environment variables that a peer gets. It needs no keys."""
_SERVER_SCRIPT = get_scripts_folder() / "replay_server.py"


class PeerProcess:
    """The process of one peer, which plays many recordings."""

    def __init__(self, name: str) -> None:
        peer = find_peer(name)
        if peer is None:
            raise BadInput(f"There is no peer {name!r}.", "See `tidegate lab --help`.")
        self.name = name
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 - closed with the process
        # -E: the PYTHON variables of the caller are meant for another interpreter.
        command = [str(get_interpreter(peer)), "-E", str(_SERVER_SCRIPT), peer.script]
        self._process = subprocess.Popen(
            [*command, json.dumps(peer.settings)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            env={name: os.environ[name] for name in _PASSED_VARIABLES if name in os.environ},
        )

    def play(
        self, messages: Sequence[_Json], window: int, sink: Callable[[ContenderRequest], None], stopped: StopCheck
    ) -> None:
        """Play a recording and hand each request of the peer to the sink."""
        to, back = self._pipes()
        try:
            to.write(json.dumps({"messages": messages, "window": window}).encode() + b"\n")
            to.flush()
        except BrokenPipeError:
            raise self._make_end_error() from None
        table: list[_Json] = []
        for record in self._read_records(back):
            if "failed" in record:
                raise TidegateError(f"{self.name}: {record['failed']}", "The peer's own code failed on this recording.")
            if stopped():
                raise KeyboardInterrupt
            table += record.get("new", ())
            sink(_read_record(record, table))

    def _read_records(self, back: IO[bytes]) -> Iterator[_Json]:
        """Yield the records of one job."""
        while line := back.readline():
            record = msgspec.json.decode(line)
            if record.get("done"):
                return
            yield record
        raise self._make_end_error()

    def _pipes(self) -> "_Pipes":
        if self._process.stdin is None or self._process.stdout is None:
            raise self._make_end_error()
        return _Pipes(self._process.stdin, self._process.stdout)

    def _make_end_error(self) -> TidegateError:
        self._errors.seek(0)
        output = self._errors.read().decode("utf-8", "replace").strip().splitlines()
        why = output[-1] if output else "it printed no error"
        return TidegateError(f"{self.name} ended: {why[:300]}", "Run `make peers` to rebuild its environment.")

    def close(self) -> None:
        """Close the pipes, at which the process ends, and kill it if it has not ended after 5 seconds."""
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                try:
                    pipe.close()
                except BrokenPipeError:
                    continue
        try:
            self._process.wait(5)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._errors.close()


class _Pipes(NamedTuple):
    to: IO[bytes]
    back: IO[bytes]


def _read_record(record: _Json, table: Sequence[_Json]) -> ContenderRequest:
    summaries = tuple(SummaryUsage(each["read"], each["written"]) for each in record.get("summaries", ()))
    if "error" in record:
        return ContenderRequest(record["at"], (), str(record["error"]) or "it gave no reason", record["cpu"], summaries)
    messages = [table[place] for place in record["is"]]
    return ContenderRequest(record["at"], messages, "", record["cpu"], summaries, was_guarded="guarded" in record)


_open_processes: list[PeerProcess] = []
"""At most one peer runs in a worker: the cells of a peer follow each other."""


def get_peer_process(name: str) -> PeerProcess:
    """Return the running process of this peer, or close another peer's and start it."""
    if _open_processes and _open_processes[0].name != name:
        close_peer_process()
    if not _open_processes:
        _open_processes.append(PeerProcess(name))
    return _open_processes[0]


def close_peer_process() -> None:
    """End the peer of this process, if there is one."""
    while _open_processes:
        _open_processes.pop().close()
