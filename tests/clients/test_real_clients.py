"""Real clients through the gateway: `make test-clients` installs them and runs this; elsewhere it is skipped.

Claude Code and Codex do scripted tasks against a provider with a window of 32,000 tokens that never says it is large.
"""

import asyncio
import os
import re
import sys
from pathlib import Path

import pytest

from tests.clients.scripted_provider import ScriptedProvider
from tests.gateway.serving import Running, run_gateway
from tidegate.core.events import BranchStarted
from tidegate.gateway.settings import Upstream

FOLDER = Path(os.environ.get("TIDEGATE_CLIENTS", ".envs/clients")).absolute() / "node_modules" / ".bin"
STEPS = int(os.environ.get("TIDEGATE_CLIENT_STEPS", "40"))
NOISE = "for i in $(seq 1 90); do echo line $i of step {n} is some output of a tool; done"
FACT = "the teapot on shelf 9f3a prefers oolong"
FACT_AT = 3


def needs(client: str) -> Path:
    if not (FOLDER / client).exists():
        pytest.skip(f"{client} is not installed: run `make test-clients`")
    return FOLDER / client


def script(steps: int) -> "type[str] | object":
    def make_command(step: int) -> str | None:
        fact = f"; echo {FACT}; echo and that was step {step}" if step == FACT_AT else ""
        return NOISE.format(n=step) + fact if step < steps else None

    return make_command


async def run_client(command: list[str], cwd: Path, **environment: str) -> str:
    """Run a program with a clean environment, in which `cwd` is the home folder unless HOME is given."""
    plain = {name: os.environ[name] for name in ("PATH", "LANG", "TMPDIR") if name in os.environ}
    process = await asyncio.create_subprocess_exec(
        *command,
        cwd=cwd,
        env={**plain, "HOME": str(cwd), **environment},
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    try:
        async with asyncio.timeout(1500):
            output, _ = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    assert process.returncode == 0, output.decode()[-2000:]
    return output.decode()


TASK = "Run the steps you are given, one after the other, and say when all are done."
CLAUDE_SETTINGS = {
    "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
    "DISABLE_AUTOUPDATER": "1",
    "IS_SANDBOX": "1",
}


async def run_claude(running: Running, home: Path) -> str:
    command = [str(needs("claude")), "-p", TASK, "--dangerously-skip-permissions", "--output-format", "json"]
    return await run_client(
        command,
        home,
        ANTHROPIC_BASE_URL=running.url,
        ANTHROPIC_API_KEY="sk-ant-test-key-of-nobody",
        **CLAUDE_SETTINGS,
    )


async def run_codex(running: Running, home: Path) -> str:
    config = home / ".codex"
    config.mkdir()
    (config / "config.toml").write_text(
        f'model = "gpt-5.4"\nmodel_provider = "x"\n[model_providers.x]\nname = "x"\nbase_url = "{running.url}/v1"\n'
        'env_key = "TEST_KEY"\nwire_api = "responses"\n'
    )
    command = [str(needs("codex")), "exec", "--dangerously-bypass-approvals-and-sandbox", "--skip-git-repo-check"]
    return await run_client([*command, "--json", TASK], home, CODEX_HOME=str(config), TEST_KEY="key-of-nobody-0123")


RUNS = {"claude": run_claude, "codex": run_codex}
FAMILY = {"claude": "anthropic", "codex": "openai"}


@pytest.mark.parametrize("client", RUNS)
def test_a_long_task_in_a_small_window(client: str, tmp_path: Path) -> None:
    needs(client)
    home = tmp_path / "home"
    home.mkdir()

    async def run() -> None:
        async with ScriptedProvider(
            script(STEPS),  # type: ignore[arg-type]
            window=32_000,
            recall_at=(STEPS * 2 // 3, STEPS - 1),
            recalled_word="teapot",
        ) as provider:
            family = FAMILY[client]
            upstream = Upstream(family, family, provider.url)  # type: ignore[arg-type]
            async with run_gateway(tmp_path / "data", upstream, window=32_000, recall=True) as running:
                output = await RUNS[client](running, home)
                names = [info.name for info in running.data.store.sessions()]
                branches = [
                    e
                    for name in names
                    for e in running.data.open_log(name).read()
                    if isinstance(e.payload, BranchStarted)
                ]
        assert "All steps are done." in output
        assert provider.steps[-1] == STEPS
        assert provider.refused == [], "an overflow happened upstream"
        assert provider.faults == []
        assert not any(re.search(rb"being continued|COMPACTION", seen.raw) for seen in provider.seen)
        assert len([name for name in names if name.startswith(client)]) == 1
        assert branches == []
        assert len(provider.recalled) == 2
        assert all(FACT in text for text in provider.recalled.values()), provider.recalled
        transcripts = [path.read_text(errors="replace") for path in home.rglob("*.jsonl")]
        assert any(f"line 90 of step {STEPS - 1}" in text for text in transcripts)
        assert not any("toolu_recall" in text for text in [output, *transcripts])
        assert "defect" not in "".join(running.lines)

    asyncio.run(run())


@pytest.mark.parametrize("client", RUNS)
def test_an_injected_overflow_is_invisible(client: str, tmp_path: Path) -> None:
    needs(client)
    home = tmp_path / "home"
    home.mkdir()

    async def run() -> None:
        async with ScriptedProvider(script(6), refuse_at=(4,)) as provider:  # type: ignore[arg-type]
            family = FAMILY[client]
            async with run_gateway(tmp_path / "data", Upstream(family, family, provider.url)) as running:  # type: ignore[arg-type]
                output = await RUNS[client](running, home)
        assert "All steps are done." in output
        assert len(provider.refused) == 1

    asyncio.run(run())


WRAPPED = {
    "claude": ["claude", "--", "-p", TASK, "--dangerously-skip-permissions", "--output-format", "json"],
    "codex": [
        "codex",
        "--",
        "exec",
        "-m",
        "gpt-5.4",
        "--dangerously-bypass-approvals-and-sandbox",
        "--skip-git-repo-check",
        TASK,
    ],
}


@pytest.mark.parametrize("client", WRAPPED)
def test_one_command_from_a_clean_home_folder(client: str, tmp_path: Path) -> None:
    """`tidegate wrap`: the client's own settings folder is elsewhere, and the home folder stays as it was."""
    programs = needs(client).parent
    home, work, state = tmp_path / "home", tmp_path / "work", tmp_path / "state"
    for folder in (home, work, state):
        folder.mkdir()
    (home / "notes.txt").write_text("mine")

    async def run() -> str:
        async with ScriptedProvider(script(6), window=32_000) as provider:  # type: ignore[arg-type]
            output = await run_client(
                [str(Path(sys.executable).parent / "tidegate"), "wrap", *WRAPPED[client]],
                work,
                HOME=str(home),
                PATH=f"{programs}{os.pathsep}{os.environ['PATH']}",
                TIDEGATE_DATA=str(tmp_path / "data"),
                TMPDIR=str(tmp_path),
                ANTHROPIC_BASE_URL=provider.url,
                ANTHROPIC_API_KEY="sk-ant-test-key-of-nobody",
                CLAUDE_CONFIG_DIR=str(state),
                **CLAUDE_SETTINGS,
                OPENAI_BASE_URL=f"{provider.url}/v1",
                OPENAI_API_KEY="key-of-nobody-0123",
                CODEX_HOME=str(state),
            )
            assert provider.steps[-1:] == [6], output[-3000:]
            assert provider.faults == []
        return output

    output = asyncio.run(run())
    assert "All steps are done." in output
    assert re.search(rf"tidegate: session {client}-\S+, \d requests", output)
    assert {str(path.relative_to(home)) for path in home.rglob("*")} == {"notes.txt"}
    assert (home / "notes.txt").read_text() == "mine"
