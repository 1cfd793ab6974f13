"""Measure how soon `tidegate chat` shows its first screen, and whether a long session scrolls like a short one.

    python3 bench/chat_open.py [--rounds 5] [--short 200] [--long 20000] [--json]

The first screen is measured in a terminal of its own (a pty of 80x24): from the moment all imports are done to the
moment the whole screen is drawn, and until the agent can be spoken to. The imports themselves are given beside it.
Sessions are made by a real `Session` in a window of 16,000 tokens, so the log holds what a log holds: messages,
reports, notes, edits. All but the last turns are said under a policy that decides fast (`FILLED_BY`): nothing here
depends on what was decided long ago; the last `OWN` turns, and the opening, are under the default policy.

The best of the rounds, which go back and forth between the two lengths. CPU time is that of the whole process, all
threads; wall time stands beside it and means something only where nothing else runs (`load` says how busy it was).
"""

import argparse
import asyncio
import json
import os
import pty
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tidegate import Session

PAGES = 24
FILLED_BY = "cowagent"
OWN = 50


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--short", type=int, default=200)
    parser.add_argument("--long", type=int, default=20_000)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--child", default="")
    options = parser.parse_args()
    if options.child:
        return child(Path(options.child))
    with tempfile.TemporaryDirectory() as folder:
        sizes = (options.short, options.long)
        for size in sizes:
            make_stored_session(Path(folder) / str(size), size)
        rounds = [{size: in_terminal(Path(folder) / str(size)) for size in sizes} for _ in range(options.rounds)]
    figures = {size: best([each[size] for each in rounds]) for size in sizes}
    if options.json:
        print(json.dumps(figures, indent=1))
        return 0
    report(figures)
    print(f"load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores, best of {options.rounds} rounds")
    return 0


def report(figures: dict[int, dict[str, float]]) -> None:
    short, long = figures
    print(f"{'':44}{short:>8,} messages{long:>9,} messages   ratio")
    for key, name in NAMES.items():
        one, other = figures[short][key], figures[long][key]
        ratio = other / one if one else 1.0
        verdict = ""
        if key in UNDER:
            verdict = format_verdict(max(one, other) < UNDER[key], f"under {UNDER[key] * 1000:,.0f} ms")
        elif key in STEADY:
            verdict = format_verdict(ratio < GROWN, f"ratio under {GROWN}")
        print(f"{name:44}{one * 1000:>14,.1f} ms{other * 1000:>15,.1f} ms{ratio:8.2f}  {verdict}".rstrip())


def format_verdict(holds: bool, bar: str) -> str:
    return f"{'holds' if holds else 'DOES NOT HOLD'}: {bar}"


NAMES = {
    "imports_wall": "interpreter and imports, wall",
    "imports_cpu": "interpreter and imports, CPU",
    "screen_wall": "first screen beyond that, wall",
    "screen_cpu": "first screen beyond that, CPU",
    "ready_cpu": "until the agent is open, CPU",
    "counted_cpu": "until all that was spent is added up, CPU",
    "page_cpu": f"a page up (mean of {PAGES}), CPU",
    "page_wall": f"a page up (mean of {PAGES}), wall",
    "start_cpu": "to the beginning, CPU",
    "end_cpu": "and back to the end, CPU",
}
UNDER = {"screen_wall": 0.5}
STEADY = ("screen_cpu", "page_cpu", "page_wall", "start_cpu", "end_cpu")
GROWN = 1.5
"""A hundred times the messages, and no more than this times the cost: what noise alone makes of two equal figures."""


def best(rounds: list[dict[str, float]]) -> dict[str, float]:
    return {key: min(each[key] for each in rounds) for key in NAMES}


def make_stored_session(folder: Path, messages: int) -> None:
    """A session of so many messages, kept; then opened and closed once more, as it would be in use."""
    from tidegate import DataFolder, Session
    from tidegate.store.log import MemoryLog

    log = MemoryLog()
    turns = messages // 4
    own = max(0, turns - OWN)
    add_turns(Session("gpt-4o", window=16_000, log=log, count="chars/4", policy=FILLED_BY), range(own))
    add_turns(Session("gpt-4o", window=16_000, log=log, count="chars/4"), range(own, turns))
    data = DataFolder(folder / "data", secrets=[])
    records = log.records()
    for start in range(0, len(records), 500):
        data.store.append("long", start, records[start : start + 500])
    with data.open("long", "gpt-4o", window=16_000, count="chars/4"):
        pass
    data.close()


def add_turns(session: "Session", turns: range) -> None:
    """A question, a call, its result and an answer for each; every request prepared, every report kept."""
    for number in turns:
        session.add({"role": "user", "content": f"Question {number}: why is step {number} slow?"})
        session.prepare()
        call = {"id": f"c{number}", "type": "function", "function": {"name": "read", "arguments": '{"path": "a.py"}'}}
        session.add({"role": "assistant", "content": None, "tool_calls": [call]})
        session.add({"role": "tool", "tool_call_id": f"c{number}", "content": f"line of a file {number}\n" * 12})
        request = session.prepare()
        answer = f"## Step {number}\n\nIt **waits** for `disk`:\n\n- one\n- two\n\n```python\nx = {number}\n```\n"
        session.add({"role": "assistant", "content": answer})
        session.record({"prompt_tokens": request.tokens, "completion_tokens": 40})


# --- one run in a terminal of its own ---------------------------------------------------------------------------------


def in_terminal(folder: Path) -> dict[str, float]:
    """The child draws on a pty, which is read as a terminal would; its figures come through a file."""
    figures = folder / "figures.json"
    figures.unlink(missing_ok=True)
    ours, theirs = pty.openpty()
    environment = {**os.environ, "TERM": "xterm-256color", "COLORTERM": "truecolor", "COLUMNS": "80", "LINES": "24"}
    command = [sys.executable, str(Path(__file__).resolve()), "--child", str(folder)]
    started = time.time()
    running = subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs, env=environment)
    os.close(theirs)
    output = b""
    try:
        while chunk := os.read(ours, 65_536):
            output += chunk
    except OSError:  # the other end is closed
        pass
    finally:
        os.close(ours)
    if running.wait() or b"ctx" not in output:
        raise SystemExit(f"the app did not come up:\n{output.decode('utf-8', 'replace')[-2000:]}")
    read: dict[str, float] = json.loads(figures.read_text())
    read["imports_wall"] -= started
    return read


def child(folder: Path) -> int:
    from contextlib import ExitStack

    from tidegate.cli.chat import postpone_collection

    loading = ExitStack()
    postpone_collection(loading)  # as the command does

    from textual.geometry import Size

    import tidegate.tui.app as chat
    from tidegate import DataFolder
    from tidegate.agent.config.files import locate_config_files
    from tidegate.agent.config.launch import LaunchOptions
    from tidegate.models.scripted_provider import ScriptedProvider

    imported, began, cpu = time.time(), time.perf_counter(), time.process_time()
    figures: dict[str, Any] = {"imports_wall": imported, "imports_cpu": cpu}
    config = folder / "tidegate.yaml"
    config.write_text("agents: [{id: main, model: {provider: openai, model: gpt-4o}}]\nwindow: 16000\n")
    data = DataFolder(folder / "data", secrets=[])
    opening = LaunchOptions(
        locate_config_files(folder, {}, explicit_file=str(config)), {"HOME": str(folder)}, session_name="long"
    )

    class Timed(chat.ChatApp):
        def _start_agent(self) -> None:
            figures["screen_wall"] = time.perf_counter() - began
            figures["screen_cpu"] = time.process_time() - cpu
            assert self.conversation.row_cache.rows, "the newest messages are not on the screen"
            super()._start_agent()
            self.run_worker(self._play())

        async def _play(self) -> None:
            while not self.agent_ready:
                await asyncio.sleep(0.005)
            figures["ready_cpu"] = time.process_time() - cpu
            while not self.status.figures.cost_is_complete:
                await asyncio.sleep(0.005)
            figures["counted_cpu"] = time.process_time() - cpu
            at = time.perf_counter()
            figures["page_cpu"] = await self._timed(PAGES, lambda: self.action_page(-1)) / PAGES
            figures["page_wall"] = (time.perf_counter() - at) / PAGES
            figures["start_cpu"] = await self._timed(1, self.action_start)
            figures["end_cpu"] = await self._timed(1, self.action_end)
            self.exit(0)

        async def _timed(self, times: int, act: Any) -> float:
            """Each act until it is drawn."""
            at = time.process_time()
            for _ in range(times):
                drawn = asyncio.Event()
                act()
                self.call_after_refresh(drawn.set)
                await drawn.wait()
            return time.process_time() - at

    provider = ScriptedProvider("openai_chat", [], model="gpt-4o")
    app = Timed(data, opening, folder, provider_for=lambda _: provider)
    loading.close()
    app.run(size=(80, 24))
    assert app.size == Size(80, 24)
    app.agent_thread.close()
    data.close()
    (folder / "figures.json").write_text(json.dumps(figures))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
