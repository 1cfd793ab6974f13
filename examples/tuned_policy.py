"""A policy tuned in the lab: `tidegate tune` searches a setting on one part of the sessions and tests it on the rest.

Without an argument it generates sessions first; give it a folder of your own. It needs no key, but the extra `tune`.
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

folder = Path(sys.argv[1] if len(sys.argv) > 1 else "generated-recordings")
if len(sys.argv) == 1:
    for number in range(4):
        project = folder / f"project-{number % 2}"
        project.mkdir(parents=True, exist_ok=True)
        lines = [json.dumps(message) for message in generate_session(40, number)]
        (project / f"session-{number}.jsonl").write_text("\n".join(lines) + "\n")

Path("untuned.yaml").write_text(POLICY)
search = ["tune", str(folder), "--policy", "untuned.yaml", "--vary", "at=0.3..0.9", "--window", "8000", "--trials", "3"]
subprocess.run([sys.executable, "-m", "tidegate", *search, "--out", "tuned.yaml"], check=True)
if Path("tuned.yaml").exists():
    found = load("tuned.yaml").settings["at"]
    print(f"Results are now cleared above a pressure of {found}. Use it: tidegate chat --policy tuned.yaml")
else:
    print("Nothing better was found: keep untuned.yaml.")
