"""Running a program of examples/integrations against the strict fake provider."""

import os
import subprocess
import sys
from pathlib import Path

from tests.integrations.provider import FINAL_ANSWER, KEY, LongTask, run_provider
from tidegate.datafolder.data_folder import DataFolder

EXAMPLES = Path(__file__).parents[2] / "examples" / "integrations"


def check_example(name: str, wire: str, folder: Path, session: str = "report") -> None:
    """The example gives the final answer, no request is refused, and everything is in the log.

    `session` is the name of its session, without the program that is in front of it in the default folder.
    """
    with run_provider(wire, LongTask(40, parallel=2), 16_000) as fake:
        set_up = {"OPENAI_BASE_URL": fake.url, "OPENAI_API_KEY": KEY, "TIDEGATE_DATA": str(folder)}
        set_up |= {"GOOGLE_GEMINI_BASE_URL": fake.host, "GEMINI_API_KEY": KEY, "GOOGLE_API_KEY": KEY}
        done = subprocess.run(
            [sys.executable, str(EXAMPLES / name)],
            env={**os.environ, **set_up},
            capture_output=True,
            text=True,
            timeout=240,
            check=False,
        )
        assert done.returncode == 0, done.stderr[-2000:]
        assert done.stdout.startswith(FINAL_ANSWER)
        assert fake.refused == []
        assert len(fake.seen) == 21
    with DataFolder(folder) as data:
        assert [info.name.rpartition("/")[2] for info in data.store.sessions()] == [session]
