"""A tuned policy: `tidegate tune` searches for a setting on one part of the sessions, and tests it on the rest.

Pass a folder with your own sessions as the argument; without one, sessions are generated. It needs the extra `tune`,
and no key.
"""

import json
import subprocess
import sys
from pathlib import Path

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

work = Path("tuned-policy")
folder = Path(sys.argv[1]) if len(sys.argv) > 1 else work / "recordings"
if len(sys.argv) == 1:
    for number in range(4):
        project = folder / f"project-{number % 2}"
        project.mkdir(parents=True, exist_ok=True)
        lines = [json.dumps(message) for message in generate_session(40, number)]
        (project / f"session-{number}.jsonl").write_text("\n".join(lines) + "\n")

before, tuned = work / "untuned.yaml", work / "tuned.yaml"
work.mkdir(exist_ok=True)
before.write_text(POLICY)
tuned.unlink(missing_ok=True)  # of an earlier run: `tune` does not overwrite a file
search = ["tune", str(folder), "--policy", str(before), "--vary", "at=0.3..0.9", "--window", "8000", "--trials", "3"]
subprocess.run([sys.executable, "-m", "tidegate", *search, "--out", str(tuned)], check=True)
if tuned.exists():
    print(f"Results are now cleared above a pressure of {load(tuned).settings['at']}.")
    print(f"Use it: tidegate chat --policy {tuned}")
else:
    print(f"Nothing better was found: keep {before}.")
