"""Show a line of 40 MB in the app, three ways, and print how much memory it took. Run as a program, for its own peak.

python -m tests.tui.long_line FOLDER
"""

import asyncio
import json
import resource
import sys
from pathlib import Path

from tests.tui.stage import on_stage
from tidegate.core.messages import Call
from tidegate.wire.streaming.scripted_answer import ScriptedAnswer

LENGTH = 40_000_000


def read_peak() -> int:
    """The most memory that this process has used so far, in kilobytes."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


async def show_line(folder: Path) -> dict[str, int]:
    calls = [
        ScriptedAnswer(calls=(Call("c1", "read", '{"path": "line.txt"}'),)),
        ScriptedAnswer(calls=(Call("c2", "shell", '{"command": "cat line.txt"}'),)),
    ]
    async with on_stage(folder, [*calls, "All read."]) as stage:
        path = folder / "work" / "line.txt"
        with path.open("wb") as file:
            for _ in range(100):
                file.write(b"x" * (LENGTH // 100))
        before = read_peak()
        await stage.say("Read it.")
        await stage.sees("May shell run?")
        await stage.press("1")
        await stage.sees("All read.")
        await stage.idle()
        await stage.press("ctrl+o", "ctrl+home")
        await stage.say("!cat line.txt")
        await stage.sees("┆ !cat line.txt")
        shown = stage.text()
        assert "x" * 40 in shown, shown
        return {"before": before, "after": read_peak()}


if __name__ == "__main__":
    print(json.dumps(asyncio.run(show_line(Path(sys.argv[1])))))
