"""Turns the signals that end a process into a clean exit."""

import asyncio
import signal
import sys
from collections.abc import Coroutine
from typing import Any


async def run_until_signal(work: Coroutine[Any, Any, int]) -> int:
    """Run `work` and return its exit status.

    SIGTERM and SIGHUP cancel it, as Ctrl-C does; the status then says which signal it was.
    """
    task, signals = asyncio.ensure_future(work), list[int]()
    loop = asyncio.get_running_loop()

    def stop(number: int) -> None:
        signals.append(number)
        task.cancel()

    handled = [each for each in (signal.SIGTERM, signal.SIGHUP) if signal.getsignal(each) is signal.SIG_DFL]
    for each in handled:
        loop.add_signal_handler(each, stop, each)
    try:
        return await task
    except asyncio.CancelledError:
        if not signals:
            raise
    finally:
        for each in handled:
            loop.remove_signal_handler(each)
    print("tidegate: stopped", file=sys.stderr)
    return 128 + signals[0]
