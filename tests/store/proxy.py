"""Stands between a PostgreSQL store and its server, and breaks the connection where it hurts."""

import random
import socket
import time
from contextlib import suppress
from threading import Event, Lock, Thread
from typing import Literal, NamedTuple

from psycopg.conninfo import conninfo_to_dict

Cut = Literal["", "request", "answer", "late"]
MARK = b"the record that is cut"
"""Only what holds this is touched. The answer to it is swallowed, or the request, or that comes to the server late."""
RETRANSMISSION_SECONDS = 0.25


class _Pair(NamedTuple):
    client: socket.socket
    server: socket.socket
    mute: Event


def _end(*links: socket.socket) -> None:
    for link in links:
        with suppress(OSError):
            link.shutdown(socket.SHUT_RDWR)


class Proxy:
    def __init__(self, url: str) -> None:
        given = conninfo_to_dict(url)
        self._host, self._port = str(given["host"]), int(given.get("port") or 5432)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._listener.getsockname()[1])
        self.url = f"postgresql://postgres@127.0.0.1:{self.port}/{given['dbname']}?sslmode=disable"
        self.cut: Cut = ""
        self.times = 1  # so often it is cut
        self.done = Event()  # the connection was cut
        self.late = Event()  # set it, and a late request is handed to the server
        self.handed = Event()  # it was
        self._pairs: list[_Pair] = []
        self._lock = Lock()
        self._passed = 0
        self._drops: frozenset[int] = frozenset()
        self._delivers = False
        self._loss = 0.0
        self.dropped = 0  # connections that `drop_at` has cut since it was called
        self.total_dropped = 0
        Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                try:
                    server = self._connect()
                except OSError:  # the server is down
                    client.close()
                    continue
                pair = _Pair(client, server, Event())
                self._pairs.append(pair)
                for pump in (self._ask, self._answer):
                    Thread(target=pump, args=(pair,), daemon=True).start()

    def _connect(self) -> socket.socket:
        if not self._host.startswith("/"):
            return socket.create_connection((self._host, self._port))
        server = socket.socket(socket.AF_UNIX)
        server.connect(f"{self._host}/.s.PGSQL.{self._port}")
        return server

    def drop_at(self, *steps: int, deliver: bool) -> None:
        """Cut the connection at these pieces of traffic, counted from now in both directions. `deliver`: the piece
        still arrives, and what comes after it does not."""
        with self._lock:
            self._passed, self._drops, self._delivers, self.dropped = 0, frozenset(steps), deliver, 0

    def lose(self, share: float) -> None:
        """Lose this share of the pieces of traffic. As TCP sends them again, they arrive late."""
        self._loss = share

    def _passes(self, pair: _Pair, to: socket.socket, data: bytes) -> bool:
        """Whether this piece of traffic goes on. If not, it was the last one of its connection."""
        if self._loss and random.random() < self._loss:
            time.sleep(RETRANSMISSION_SECONDS)
        with self._lock:
            self._passed += 1
            drop = self._passed in self._drops
            self.dropped += drop
            self.total_dropped += drop
        if drop:
            if self._delivers:
                to.sendall(data)
            _end(pair.client, pair.server)
        return not drop

    def _ask(self, pair: _Pair) -> None:
        cut: Cut = ""
        with suppress(OSError):
            while data := pair.client.recv(1 << 20):
                if not self._passes(pair, pair.server, data):
                    return
                cut = self.cut if MARK in data else ""
                if cut:
                    self.times -= 1
                    if self.times <= 0:
                        self.cut = ""
                    pair.mute.set()
                if cut == "answer":
                    pair.server.sendall(data)
                    continue
                if cut:
                    _end(pair.client)
                    self.done.set()
                if cut == "late":
                    self.late.wait(600)
                    with suppress(OSError):
                        pair.server.sendall(data)
                    self.handed.set()
                    return
                if cut == "request":
                    break
                pair.server.sendall(data)
        if not pair.mute.is_set() or cut == "request":
            _end(pair.server)

    def _answer(self, pair: _Pair) -> None:
        with suppress(OSError):
            while data := pair.server.recv(1 << 20):
                if pair.mute.is_set():
                    self.done.set()
                    break
                if not self._passes(pair, pair.client, data):
                    return
                pair.client.sendall(data)
        _end(pair.client)

    def cut_now(self) -> None:
        """Do not wait for the answer."""
        for pair in self._pairs:
            if pair.mute.is_set():
                _end(pair.client)
        self.done.set()

    def refuse(self) -> None:
        """Nobody new comes through."""
        _end(self._listener)
        self._listener.close()

    def close(self) -> None:
        self.late.set()
        self.refuse()
        for pair in self._pairs:
            _end(*pair[:2])
            pair.client.close()
            pair.server.close()
