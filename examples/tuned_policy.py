"""A tuned policy: `tidegate tune` searches for a setting on one part of the sessions, and tests it on the rest.

Pass a folder with your own sessions as the argument; without one, sessions are generated. It needs the extra `tune`,
and no key.
"""

import json
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from tidegate import load
from tidegate.proof.session_generator import generate_session

POLICY = """\
name: untuned
settings:
  at: 0.3
moments:
  before_call:
    - stage: clear_results
      when: {pressure: "> $at"}
      keep: 3
"""


def tune(work: Path, folder: Path) -> None:
    """Search in `folder`, with files in `work`."""
    before, tuned = work / "untuned.yaml", work / "tuned.yaml"
    before.write_text(POLICY)
    search = ["--policy", str(before), "--vary", "at=0.3..0.9", "--window", "8k", "--trials", "3", "--out", str(tuned)]
    subprocess.run([sys.executable, "-m", "tidegate", "tune", str(folder), *search], check=True)
    if tuned.exists():
        print(f"Results are now cleared above a pressure of {load(tuned).settings['at']}. The policy:")
        print(tuned.read_text())
    else:
        print("Nothing better was found: keep the policy as it is.")


def generate(folder: Path) -> Path:
    for number in range(4):
        project = folder / f"project-{number % 2}"
        project.mkdir(parents=True, exist_ok=True)
        lines = [json.dumps(message) for message in generate_session(40, number)]
        (project / f"session-{number}.jsonl").write_text("\n".join(lines) + "\n")
    return folder


with TemporaryDirectory() as name:
    tune(Path(name), Path(sys.argv[1]) if len(sys.argv) > 1 else generate(Path(name) / "recordings"))
