"""The real clients: how each is run and pointed at a gateway. `CONTINUE` has the options for a second turn."""

import asyncio
import json
import os
from pathlib import Path

import pytest

from tests.gateway.serving import Running

FOLDER = Path(os.environ.get("TIDEGATE_CLIENTS", ".envs/clients")).absolute() / "node_modules" / ".bin"


def needs(client: str) -> Path:
    if not (FOLDER / client).exists():
        pytest.skip(f"{client} is not installed: run `make test-clients`")
    return FOLDER / client


async def run_client(command: list[str], cwd: Path, **environment: str) -> str:
    """Run a program with a clean environment, in which `cwd` is the home folder unless HOME is given."""
    plain = {name: os.environ[name] for name in ("LANG", "TMPDIR") if name in os.environ}
    plain["PATH"] = f"{FOLDER}:{os.environ['PATH']}"  # the Node that the clients want is there
    process = await asyncio.create_subprocess_exec(
        *command,
        cwd=cwd,
        env={**plain, "HOME": str(cwd), **environment},
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    try:
        async with asyncio.timeout(3000):
            output, _ = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    assert process.returncode == 0, output.decode()[-2000:]
    return output.decode()


TASK = "Run the steps you are given, one after the other, and say when all are done."
KEY = "key-of-nobody-0123"
CLAUDE_SETTINGS = {
    "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
    "DISABLE_AUTOUPDATER": "1",
    "IS_SANDBOX": "1",
}


async def run_claude(running: Running, home: Path, *options: str, task: str = TASK) -> str:
    command = [str(needs("claude")), "-p", task, "--dangerously-skip-permissions", "--output-format", "json"]
    return await run_client(
        [*command, *options],
        home,
        ANTHROPIC_BASE_URL=running.url,
        ANTHROPIC_API_KEY="sk-ant-test-key-of-nobody",
        **CLAUDE_SETTINGS,
    )


AGENT_SDK = """
import asyncio, sys
from claude_agent_sdk import ClaudeAgentOptions, ResultMessage, query
program, task, model, goes_on = sys.argv[1:]
options = ClaudeAgentOptions(
    permission_mode="bypassPermissions",
    cli_path=program,
    model=model,
    system_prompt={"type": "preset", "preset": "claude_code"},
    setting_sources=["user", "project"],
    continue_conversation=bool(goes_on),
)
async def main():
    async for message in query(prompt=task, options=options):
        if isinstance(message, ResultMessage):
            print(message.result)
asyncio.run(main())
"""


async def run_agent_sdk(
    running: Running, home: Path, *options: str, task: str = TASK, model: str = "claude-opus-5-5"
) -> str:
    """A program with the Claude Agent SDK, which starts Claude Code. Its one option is `--continue`."""
    python = FOLDER.parents[1] / "agent-sdk" / "bin" / "python"
    if not python.exists():
        pytest.skip("the Claude Agent SDK is not installed: run `make test-clients`")
    return await run_client(
        [str(python), "-c", AGENT_SDK, str(needs("claude")), task, model, "".join(options)],
        home,
        ANTHROPIC_BASE_URL=running.url,
        ANTHROPIC_API_KEY="sk-ant-test-key-of-nobody",
        **CLAUDE_SETTINGS,
    )


async def run_codex(running: Running, home: Path, *options: str, task: str = TASK, settings: str = "") -> str:
    """`settings` are further lines of the provider's section."""
    config = home / ".codex"
    config.mkdir(exist_ok=True)
    (config / "config.toml").write_text(
        f'model = "gpt-5.4"\nmodel_provider = "x"\n[model_providers.x]\nname = "x"\nbase_url = "{running.url}/v1"\n'
        f'env_key = "TEST_KEY"\nwire_api = "responses"\n{settings}'
    )
    command = [str(needs("codex")), "exec", "--dangerously-bypass-approvals-and-sandbox", "--skip-git-repo-check"]
    return await run_client([*command, "--json", *options, task], home, CODEX_HOME=str(config), TEST_KEY=KEY)


async def run_opencode(running: Running, home: Path, *options: str, task: str = TASK, model: str = "m") -> str:
    """A Claude model is asked in Anthropic's dialect, and thinks."""
    is_claude = model.startswith("claude")
    described: dict[str, object] = {"name": model, "limit": {"context": 128_000, "output": 8_000}}
    if is_claude:
        described |= {"reasoning": True, "options": {"thinking": {"type": "adaptive"}}}
    provider = {
        "npm": "@ai-sdk/anthropic" if is_claude else "@ai-sdk/openai-compatible",
        "name": "p",
        "options": {"baseURL": f"{running.url}/v1", "apiKey": KEY},
        "models": {model: described},
    }
    settings = {"provider": {"p": provider}, "permission": "allow"}
    (home / "opencode.json").write_text(json.dumps(settings))
    command = [str(needs("opencode")), "run", "-m", f"p/{model}", *task.split(), *options]  # one word would be quoted
    return await run_client(
        command, home, OPENCODE_DISABLE_AUTOUPDATE="1", OPENCODE_DISABLE_MODELS_FETCH="1", OPENCODE_DISABLE_SHARE="1"
    )


async def run_gemini(running: Running, home: Path, *options: str, task: str = TASK, work: Path | None = None) -> str:
    folder = home / ".gemini"
    folder.mkdir(exist_ok=True)
    auth = {"security": {"auth": {"selectedType": "gemini-api-key"}}}  # with a base URL it would want another one
    (folder / "settings.json").write_text(json.dumps(auth))
    command = [str(needs("gemini")), "-m", "gemini-2.5-pro", "-y", "-p", task, *options]
    return await run_client(
        command,
        work or home,
        HOME=str(home),
        GEMINI_API_KEY=KEY,
        GOOGLE_GEMINI_BASE_URL=running.url,
        GEMINI_CLI_TRUST_WORKSPACE="true",
        GEMINI_TELEMETRY_ENABLED="false",
    )


async def run_pi(running: Running, home: Path, *options: str, task: str = TASK, model: str = "m") -> str:
    """A Claude model is asked in Anthropic's dialect, and thinks."""
    is_claude = model.startswith("claude")
    folder = home / ".pi" / "agent"
    folder.mkdir(parents=True, exist_ok=True)
    cost = {"input": 0, "output": 0, "cacheRead": 0, "cacheWrite": 0}
    described = {
        "id": model,
        "name": model,
        "reasoning": is_claude,
        "input": ["text"],
        "contextWindow": 128_000,
        "maxTokens": 8_000,
        "cost": cost,
    }
    provider = {
        "baseUrl": running.url if is_claude else f"{running.url}/v1",
        "api": "anthropic-messages" if is_claude else "openai-completions",
        "apiKey": KEY,
        "models": [described],
    }
    (folder / "models.json").write_text(json.dumps({"providers": {"p": provider}}))
    thinking = ["--thinking", "high"] if is_claude else []
    command = [str(needs("pi")), "--provider", "p", "--model", model, *thinking, *options, "-p", task]
    return await run_client(command, home, PI_OFFLINE="1")


async def run_qwen(running: Running, home: Path, *options: str, task: str = TASK, work: Path | None = None) -> str:
    command = [str(needs("qwen")), "--auth-type", "openai", "-y", "-p", task, *options]
    return await run_client(
        command,
        work or home,
        HOME=str(home),
        OPENAI_API_KEY=KEY,
        OPENAI_BASE_URL=f"{running.url}/v1",
        OPENAI_MODEL="qwen3-coder-plus",
    )


RUNS = {
    "claude": run_claude,
    "agent_sdk": run_agent_sdk,
    "codex": run_codex,
    "opencode": run_opencode,
    "gemini": run_gemini,
    "pi": run_pi,
    "qwen": run_qwen,
}
FAMILY = {
    "claude": "anthropic",
    "agent_sdk": "anthropic",
    "codex": "openai",
    "opencode": "openai",
    "gemini": "gemini",
    "pi": "openai",
    "qwen": "openai",
}
CONTINUE = {
    "claude": ("--continue",),
    "agent_sdk": ("--continue",),
    "codex": ("resume", "--last"),
    "opencode": ("--continue",),
    "gemini": ("--resume", "latest"),
    "pi": ("--continue",),
    "qwen": ("--continue",),
}
"""The options with which a client continues its last conversation."""
