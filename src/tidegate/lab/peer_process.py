"""Other tools as contenders: their own code, in their own interpreter, asked over pipes."""

import json
import os
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import IO, Any, NamedTuple

import msgspec

from tidegate.core.errors import BadInput, TidegateError
from tidegate.lab import peers
from tidegate.lab.comparison.contenders import Contender
from tidegate.lab.comparison.result_cache import hash_values
from tidegate.lab.scoring.contender_request import ContenderRequest, SummaryUsage
from tidegate.lab.worker_pool import StopCheck

_Json = dict[str, Any]

PASSED_ON = ("PATH", "HOME", "TMPDIR", "LANG", "LC_ALL", "LD_LIBRARY_PATH")
"""Of the environment: a peer needs no keys."""
_SERVER_SCRIPT = Path(__file__).with_name("serving.py")


class PeerContenders(NamedTuple):
    """Those that can be run, and a sentence on each that cannot."""

    contenders: list[Contender]
    missing_reasons: list[str]


def find_peer_contenders(wanted: Sequence[str] = ()) -> PeerContenders:
    """The peers of these names, or all."""
    names = [peer.name for peer in peers.PEERS]
    for name in wanted:
        if name not in names:
            raise BadInput(f"There is no peer {name!r}.", f"There are: {', '.join(names)}.")
    found, missing = [], []
    for peer in peers.PEERS:
        if wanted and peer.name not in wanted:
            continue
        why = peers.explain_missing_peer(peer)
        if why:
            missing.append(why)
        else:
            found.append(_make_contender(peer))
    return PeerContenders(found, missing)


def _make_contender(peer: peers.Peer) -> Contender:
    fingerprint = hash_values("peer", peer.package, peer.script, dict(peer.settings))
    about = (
        f"{peer.package}: {peer.description}" if peer.runs_published_code else f"{peer.description} Re-expressed here."
    )
    return Contender(
        peer.name, "peer" if peer.runs_published_code else "re-expressed", about, fingerprint, peer_name=peer.name
    )


class PeerProcess:
    """A peer's process. One serves many recordings."""

    def __init__(self, name: str) -> None:
        peer = peers.find_peer(name)
        if peer is None:
            raise BadInput(f"There is no peer {name!r}.", "See `tidegate lab --help`.")
        self.name = name
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 - closed with the process
        command = [str(peers.get_interpreter(peer)), "-E", str(_SERVER_SCRIPT), str(peers.SCRIPTS_FOLDER), peer.script]
        self._process = subprocess.Popen(
            [*command, json.dumps(dict(peer.settings))],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            env={name: os.environ[name] for name in PASSED_ON if name in os.environ},
        )

    def play(
        self, messages: Sequence[_Json], window: int, sink: Callable[[ContenderRequest], None], stopped: StopCheck
    ) -> None:
        """Hand each of its requests to the sink."""
        to, back = self._pipes()
        try:
            to.write(json.dumps({"messages": messages, "window": window}).encode() + b"\n")
            to.flush()
        except BrokenPipeError:
            raise self._ended_error() from None
        table: list[_Json] = []
        for record in self._read_records(back):
            if "failed" in record:
                raise TidegateError(f"{self.name}: {record['failed']}", "The peer's own code failed on this recording.")
            if stopped():
                raise KeyboardInterrupt
            table += record.get("new", ())
            sink(_read_record(record, table))

    def _read_records(self, back: IO[bytes]) -> Iterator[_Json]:
        """The answers to one job."""
        while line := back.readline():
            record = msgspec.json.decode(line)
            if record.get("done"):
                return
            yield record
        raise self._ended_error()

    def _pipes(self) -> "_Pipes":
        if self._process.stdin is None or self._process.stdout is None:
            raise self._ended_error()
        return _Pipes(self._process.stdin, self._process.stdout)

    def _ended_error(self) -> TidegateError:
        self._errors.seek(0)
        said = self._errors.read().decode("utf-8", "replace").strip().splitlines()
        why = said[-1] if said else "it said nothing"
        return TidegateError(f"{self.name} ended: {why[:300]}", "Run `make peers` to build its environment anew.")

    def close(self) -> None:
        """It ends by itself once nothing more can come; one that does not is ended."""
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
    spent = tuple(SummaryUsage(each["read"], each["written"]) for each in record.get("summaries", ()))
    if "error" in record:
        return ContenderRequest(record["at"], (), str(record["error"]) or "it gave no reason", record["cpu"], spent)
    messages = [table[place] for place in record["is"]]
    return ContenderRequest(record["at"], messages, "", record["cpu"], spent, was_guarded="guarded" in record)


_open_processes: list[PeerProcess] = []
"""Of this process: the one peer that is being asked. Cells of one peer come together."""


def get_peer_process(name: str) -> PeerProcess:
    if _open_processes and _open_processes[0].name != name:
        close_peer_process()
    if not _open_processes:
        _open_processes.append(PeerProcess(name))
    return _open_processes[0]


def close_peer_process() -> None:
    """End the peer of this process, if there is one."""
    while _open_processes:
        _open_processes.pop().close()
