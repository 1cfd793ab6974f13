"""Run commands from the standard input, so that several runners can take turns while all of them live.

    {"do": "append", "first": 0, "count": 100}   ->   {"wall": ..., "cpu": ..., "syncs": ...}

Each method of a runner makes a job: what is timed is the job alone, with all its data made before. Only the standard
library: this file is imported in each peer's own environment.
"""

from __future__ import annotations

import asyncio
import ctypes
import inspect
import json
import os
import sys
import time
from collections.abc import Callable
from typing import Any

Job = Callable[[], Any]
"""Does the work, or gives an awaitable that does; a dict from it is added to the figures."""


def _syncs() -> int | None:
    """What `syncs.c` counted, if it is preloaded."""
    counter = getattr(ctypes.CDLL(None), "synced", None)
    return None if counter is None else int(counter())


async def _measure_job(job: Job) -> dict[str, Any]:
    before = _syncs()
    cpu = time.process_time_ns()
    wall = time.perf_counter_ns()
    result = job()
    if inspect.isawaitable(result):
        result = await result
    figures: dict[str, Any] = {
        "wall": (time.perf_counter_ns() - wall) / 1e9,
        "cpu": (time.process_time_ns() - cpu) / 1e9,
    }
    after = _syncs()
    if before is not None and after is not None:
        figures["syncs"] = after - before
    return figures | (result if isinstance(result, dict) else {})


async def _serve(runner: object) -> None:
    for line in sys.stdin:
        command = json.loads(line)
        try:
            figures = await _measure_job(getattr(runner, command.pop("do"))(**command))
        except Exception as failure:  # noqa: BLE001 # whatever a library raises is its row's answer
            figures = {"failed": f"{type(failure).__name__}: {failure}"[:500]}
        print(json.dumps(figures), flush=True)


def serve_commands(runner: object) -> None:
    asyncio.run(_serve(runner))
    sys.stdout.flush()
    os._exit(0)  # some leave threads behind that would be waited for
