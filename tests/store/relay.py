"""Stands between a PostgreSQL store and its server, and can hang as a pooler does: it accepts everything and answers
nothing.
"""

import socket
from contextlib import suppress
from threading import Event, Thread

from psycopg.conninfo import conninfo_to_dict


class HangingRelay:
    def __init__(self, url: str) -> None:
        given = conninfo_to_dict(url)
        self._place = f"{given['host']}/.s.PGSQL.{given.get('port') or 5432}"
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._sockets: list[socket.socket] = [self._listener]
        self._flows = Event()
        self._flows.set()
        self.accepted_while_hung = 0
        port = self._listener.getsockname()[1]
        self.url = f"postgresql://postgres@127.0.0.1:{port}/{given['dbname']}?sslmode=disable"
        Thread(target=self._accept, daemon=True).start()

    def hang(self) -> None:
        """From now on nothing passes, on old connections and on new ones."""
        self._flows.clear()

    def flow(self) -> None:
        """Pass on what was held back, and what comes."""
        self._flows.set()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                self.accepted_while_hung += not self._flows.is_set()
                server = socket.socket(socket.AF_UNIX)
                server.connect(self._place)
                self._sockets += [client, server]
                for one, other in ((client, server), (server, client)):
                    Thread(target=self._pump, args=(one, other), daemon=True).start()

    def _pump(self, one: socket.socket, other: socket.socket) -> None:
        with suppress(OSError):
            while data := one.recv(1 << 20):
                self._flows.wait()
                other.sendall(data)
        with suppress(OSError):
            other.shutdown(socket.SHUT_WR)

    def close(self) -> None:
        self.flow()
        for each in self._sockets:
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()
