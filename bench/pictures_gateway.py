"""The gateway for the pictures: what `tidegate wrap` prints, and the page under `/ui`. A script plays Claude Code.

The provider is the strict fake of the tests; nothing leaves this machine.
"""

import os
import re
import stat
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from pictures_page import photograph_page

from tests.fake.server import KEY
from tests.web.live_gateway import live_gateway

COMMAND = 'tidegate wrap claude --window 32000 -- -p "Why is the build slow?"'
STEPS = 60
CLIENT = """#!{python}
import json, os, urllib.request

def ask(messages):
    body = {{"model": "claude-opus-4-6", "max_tokens": 500, "messages": messages,
            "tools": [{{"name": "step", "input_schema": {{"type": "object"}}}}]}}
    headers = {{"content-type": "application/json", "x-api-key": "{key}", "anthropic-version": "2023-06-01",
               "x-claude-code-session-id": "1f0c62d4"}}
    headers.update(line.split(": ", 1) for line in os.environ["ANTHROPIC_CUSTOM_HEADERS"].splitlines())
    sent = urllib.request.Request(os.environ["ANTHROPIC_BASE_URL"] + "/v1/messages", json.dumps(body).encode(), headers)
    with urllib.request.urlopen(sent) as answer:
        return json.load(answer)["content"]

messages = [{{"role": "user", "content": "Why is the build slow?"}}]
for step in range({steps}):
    said = ask(messages)
    messages.append({{"role": "assistant", "content": said}})
    text = f"file {{step}}: " + "a line of code " * 300
    results = [{{"type": "tool_result", "tool_use_id": block["id"], "content": text}}
               for block in said if block["type"] == "tool_use"]
    messages.append({{"role": "user", "content": results}})
print("The link step takes 97 of 110 seconds. With lld it takes 12.")
"""


def run_wrap(folder: Path) -> str:
    """What the terminal shows of a wrapped run, from the command to the summary at its end."""
    programs, home = folder / "bin", folder / "home"
    for each in (programs, home):
        each.mkdir()
    (programs / "claude").write_text(CLIENT.format(python=sys.executable, key=KEY, steps=STEPS))
    (programs / "claude").chmod(stat.S_IRWXU)
    with live_gateway(
        folder / "upstream", recall=False
    ) as provider:  # the fake provider behind it is reached through it
        environment = {
            **{name: value for name, value in os.environ.items() if not name.startswith("ANTHROPIC")},
            "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}",
            "HOME": str(home),
            "TIDEGATE_DATA": str(folder / "wrapped"),
            "ANTHROPIC_BASE_URL": provider.url,
        }
        command = [sys.executable, "-m", "tidegate.cli.main", "wrap", "claude", "--window", "32000", "--", "-p", "..."]
        process = subprocess.run(
            command,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=True,
            timeout=300,
        )
    output = re.sub(r"code=\S+", "code=...", process.stdout)  # it works once
    return f"$ {COMMAND}\n{output}"


def photograph_gateway(folder: Path) -> bytes:
    """The page of a session that was compacted several times."""
    with live_gateway(folder / "gateway", window=32_000) as gateway:
        result = "a line of code\n" * 300
        gateway.talk(STEPS, first="Why is the build slow?", result=result, x_claude_code_session_id="build")
        return photograph_page(f"{gateway.url}/ui/session?name=claude-build", sections=2)
