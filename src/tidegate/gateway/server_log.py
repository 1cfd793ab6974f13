"""What the web server and the event loop would print on the terminal: nothing that is known, and nothing twice."""

import asyncio
import errno
import logging
import time
from collections.abc import Callable
from typing import Any, Final

from tidegate.gateway.client_answer import AnswerBrokeOff

_EXHAUSTED: Final = frozenset((errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM))
_PAUSE_SECONDS: Final = 60.0
_CAUSED_BY_CLIENTS: Final = (
    "Invalid HTTP request received.",
    "Unsupported upgrade request.",
    "No supported WebSocket library detected.",
)
"""Warnings of uvicorn that any program, and any web page in a browser here, could have printed without end."""

LoopHandler = Callable[[asyncio.AbstractEventLoop, dict[str, Any]], None]


def hide_known_failures() -> None:
    """Let uvicorn close the connection of an answer that broke off without a traceback, and refuse odd requests without
    a warning: a WebSocket has its line in the log of the gateway."""
    logging.getLogger("uvicorn.error").addFilter(_is_news)


def _is_news(record: logging.LogRecord) -> bool:
    if record.levelno == logging.WARNING and record.getMessage().startswith(_CAUSED_BY_CLIENTS):
        return False
    return not (record.exc_info and isinstance(record.exc_info[1], AnswerBrokeOff))


def make_loop_handler(log_line: Callable[[str], None], clock: Callable[[], float] = time.monotonic) -> LoopHandler:
    """A handler for exceptions of the event loop. If connections cannot be accepted, it says so once a minute.

    asyncio tries to accept a connection hundreds of times in a second then, and would print a traceback each time. It
    tries again a second later, which fails if the server was closed meanwhile.
    """
    last_said = -_PAUSE_SECONDS

    def handle(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        nonlocal last_said
        failure = context.get("exception")
        if isinstance(failure, ValueError) and "_start_serving" in context.get("message", ""):
            return
        if not isinstance(failure, OSError) or failure.errno not in _EXHAUSTED:
            loop.default_exception_handler(context)
        elif clock() - last_said >= _PAUSE_SECONDS:
            last_said = clock()
            log_line(
                f"tidegate: new connections have to wait ({failure.strerror}). Raise the limit of open files"
                " (`ulimit -n`), or let fewer clients connect at a time."
            )

    return handle
