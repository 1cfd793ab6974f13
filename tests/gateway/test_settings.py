"""The options of `tidegate serve` and the section `gateway:` of tidegate.yaml, and spans of what passes the gateway."""

import asyncio
import os
from pathlib import Path

import pytest

from tests.cli.calling import called
from tests.datafolder.test_spans import Recorder
from tests.fake.server import Fake
from tests.gateway.scripted_client import ScriptedClient, step_answer
from tests.gateway.serving import open_http, run_gateway, upstream_of
from tidegate.agent.config.files import locate_config_files
from tidegate.agent.config.trust import trust_project_file
from tidegate.cli.parser import make_parser
from tidegate.cli.serve import load_gateway_config, make_gateway_settings
from tidegate.core.errors import BadInput, TidegateError
from tidegate.gateway.settings import GatewaySettings, Upstream
from tidegate.integrations.otel_spans import create_span_watcher

SECTION = """\
gateway:
  host: 0.0.0.0
  port: 9000
  upstreams:
    anthropic: {url: "https://team.example/anthropic", key_env: TEAM_KEY}
    openai-local: {url: "http://127.0.0.1:8080/v1/"}
  window: 50000
  windows: {small-model: 8000}
  policy: ai
  policies: {codex: cowagent}
  recall: false
  token_envs: [TEAM_TOKEN]
  on_store_failure: refuse
  retention_days: 30
  max_body: 1000000
"""
TOKEN = "token-0123456789abcdef"


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty home folder and a project in it, which is the current folder."""
    project = tmp_path / "project"
    project.mkdir()
    monkeypatch.chdir(project)
    for name, value in {"HOME": str(tmp_path), "XDG_CONFIG_HOME": str(tmp_path / "config")}.items():
        monkeypatch.setenv(name, value)
    return tmp_path


def load(*arguments: str) -> GatewaySettings:
    options = make_parser().parse_args(["serve", *arguments])
    return make_gateway_settings(options, load_gateway_config(options).settings.gateway, {})


def write_section(folder: Path, text: str = SECTION, *, trusted: bool = True) -> None:
    (folder / "tidegate.yaml").write_text(text)
    if trusted:
        trust_project_file(locate_config_files(folder, os.environ))


def test_without_a_file_the_providers_themselves_are_used(home: Path) -> None:
    settings = load()
    assert settings == GatewaySettings(page_token=settings.page_token)
    assert len({settings.page_token, load().page_token}) == 2, "made for each run"
    settings = load("--upstream", "openai=http://127.0.0.1:8080/v1", "--window", "32000", "--no-recall", "--port", "0")
    assert settings.upstreams == (Upstream("openai", "openai", "http://127.0.0.1:8080/v1"),)
    assert (settings.window, settings.recall, settings.port) == (32_000, False, 0)


def test_the_section_and_the_options_over_it(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_section(Path.cwd())
    with pytest.raises(BadInput, match="TEAM_KEY is not set"):
        load()
    monkeypatch.setenv("TEAM_KEY", "key-of-the-team")
    monkeypatch.setenv("TEAM_TOKEN", TOKEN)
    written = load()
    assert written.upstreams == (
        Upstream("anthropic", "anthropic", "https://team.example/anthropic", "key-of-the-team"),
        Upstream("openai-local", "openai", "http://127.0.0.1:8080/v1"),
    )
    assert (written.host, written.port, written.tokens) == ("0.0.0.0", 9000, (TOKEN,))
    assert [written.window_for(model) for model in ("small-model", "other")] == [8_000, 50_000]
    assert [written.policy_for("m", client) for client in ("codex", "claude")] == ["cowagent", "ai"]
    assert (written.recall, written.on_store_failure) == (False, "refuse")
    assert (written.retention_days, written.max_body) == (30, 1_000_000)
    given = load("--host", "127.0.0.1", "--window", "9000", "--policy", "default", "--on-store-failure", "forward")
    assert (given.host, given.window, given.policy) == ("127.0.0.1", 9_000, "default")
    assert given.on_store_failure == "forward"
    assert "key-of-the-team" not in repr(given)
    assert TOKEN not in repr(given)


def test_a_project_may_not_choose_the_upstreams_without_trust(home: Path) -> None:
    write_section(Path.cwd(), "gateway:\n  upstreams:\n    anthropic: {url: 'https://evil.example'}\n", trusted=False)
    with pytest.raises(TidegateError, match="trust"):
        load()
    printed = called("serve", "--env", "claude")
    assert printed.returncode != 0
    assert "trust" in printed.stderr
    assert called("wrap", "claude", "--", "-p", "hi").returncode != 0


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--port", "70000"], "not a port"),
        (["--upstream", "elsewhere=http://x"], "does not name an upstream"),
        (["--upstream", "openai=ftp://x"], "not an http or https address"),
        (["--host", "0.0.0.0"], "without a token"),
        (["--token-env", "NOT_SET"], "NOT_SET is not set"),
        (["--policy", "defualt"], "defualt"),
        (["--window", "0"], "not a number of tokens"),
    ],
)
def test_wrong_options_are_refused_before_anything_is_opened(home: Path, arguments: list[str], words: str) -> None:
    done = called("serve", *arguments, "--data", home / "data")
    assert done.returncode == 2
    assert words in done.stderr
    assert not (home / "data").exists()


def test_spans_of_what_passes_the_gateway(tmp_path: Path) -> None:
    recorder = Recorder()

    async def run() -> None:
        async with Fake("anthropic", [step_answer(0), "done"]) as fake:
            watcher = lambda name: create_span_watcher(recorder.tracer, session=name)  # noqa: E731
            async with run_gateway(tmp_path, upstream_of(fake), make_watcher=watcher) as running, open_http() as http:
                client = ScriptedClient("anthropic", running.url, http, {"x-tidegate-session": "s"})
                client.say("hello")
                await client.turn("result")
                await client.turn()

    asyncio.run(run())
    names = [span.name for span in recorder.all()]
    assert names.count("chat claude-opus-5-5") == 2
    assert "execute_tool step" in names
    assert "hello" not in str([span.to_json() for span in recorder.all()])
