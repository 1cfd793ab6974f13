"""A policy that takes long for one session: for commands that are stopped in the middle of their work.

The stage of the policy announces that it is at work and then waits a little at every call. A session of 300 calls takes
half a minute, so a command that is told to stop is still at work.
"""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

_CALLS = 300
_STAGE = """
import time
from pathlib import Path
from tidegate import Outcome

def wait(view, budget):
    if any("Take your time." in str(item.message) for item in view.items[:2]):
        Path(__file__).with_name("reached").touch()
        time.sleep(0.1)
    return Outcome()
"""


class SlowPolicy:
    """Its files are in `folder`; `path` is the policy."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir()
        self.path = folder / "slow.yaml"
        self._reached = folder / "reached"
        (folder / "waiting_stage.py").write_text(_STAGE)
        self.path.write_text("name: slow\nmoments: {before_call: [{stage: 'waiting_stage:wait'}]}\n")

    def write_session(self, path: Path) -> None:
        """Write the recording that takes long."""
        lines = [{"role": "user", "content": "Take your time."}]
        for number in range(_CALLS):
            lines.append({"role": "assistant", "content": f"Step {number} is done."})
            lines.append({"role": "user", "content": f"Go on with step {number + 1}."})
        path.write_text("".join(json.dumps(line) + "\n" for line in lines))

    def start(self, *arguments: object) -> subprocess.Popen[str]:
        """Start a command that uses the policy, and wait until it is at work on that session."""
        process = subprocess.Popen(
            [sys.executable, "-m", "tidegate.cli.main", *map(str, arguments)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": str(self.path.parent)},
        )
        while not self._reached.exists():
            assert process.poll() is None, process.communicate()
            time.sleep(0.02)
        return process
