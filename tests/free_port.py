"""A port for a server that a test starts as a process, and starts again on the same port."""

import random
import socket
from contextlib import closing

_DICE = random.SystemRandom()  # pytest-randomly gives the same seed to every worker
_PORTS = range(20_000, 32_000)
"""Below the ports that a system gives to outgoing connections (32,768 on Linux, 49,152 elsewhere).

Such a connection could take the port before the server does. A client that polls for the server could even connect to
itself.
"""


def find_free_port() -> int:
    while True:
        port = _DICE.choice(_PORTS)
        try:
            with closing(socket.create_server(("127.0.0.1", port))):
                return port
        except OSError:
            continue
