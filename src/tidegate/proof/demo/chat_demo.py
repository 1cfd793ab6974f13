"""`tidegate demo --model`: the terminal app on the embedded model, in a window that floods within a minute.

On a terminal a script chats and explains what happens; any key takes over. Elsewhere the script plays by itself. Both
end with the proof that nothing was lost. Everything happens in a temporary folder; neither the user's configuration
nor a key is read.
"""

import asyncio
import os
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import msgspec

from tidegate.agent.config.files import locate_config_files
from tidegate.agent.config.launch import LaunchOptions
from tidegate.agent.config.resolved_config import load_configured_policy
from tidegate.core.errors import BadInput
from tidegate.datafolder.data_folder import DataFolder
from tidegate.models.embedded.provider import EmbeddedProvider
from tidegate.proof.chat_proof import ChatObserver, print_proof, prove_chat
from tidegate.proof.demo.script import ScriptedInput, make_demo_script
from tidegate.terminal.exit_codes import EXIT_FAILED, EXIT_OK
from tidegate.tui.agent_thread import ProviderFactory, use_configured_provider
from tidegate.tui.plain.chat_streams import has_interactive_terminal

DEMO_SESSION = "demo"
DEMO_WINDOW, _MAX_ANSWER_TOKENS = 384, 20
"""In tokens. On one core the model reads about seventy tokens a second: a larger window would take longer to fill."""

_EMBEDDED_MODEL: Final[Mapping[str, str | int]] = {"provider": "embedded", "max_output": _MAX_ANSWER_TOKENS}


def run_chat_demo(policy: str, window: int = 0) -> int:
    """Play the demonstration in a temporary folder and print the proof. The result is the exit status."""
    window = window or DEMO_WINDOW
    try:
        EmbeddedProvider(window=window)
    except BadInput as bad:
        raise BadInput(bad.args[0], f"{bad.remedy} Without a model: `tidegate demo`.") from None
    with tempfile.TemporaryDirectory(prefix="tidegate-demo-") as folder:
        return _play_demo(Path(folder), policy, window)


def _play_demo(folder: Path, policy: str, window: int) -> int:
    workspace = folder / "work"
    workspace.mkdir()
    launch = create_demo_launch(workspace, policy, window)
    load_configured_policy(launch.load_config().config)
    observer = ChatObserver(DEMO_SESSION, window)
    data = DataFolder(folder / "data", secrets=[])
    try:
        if has_interactive_terminal():
            from tidegate.proof.demo.guided_app import run_guided_demo

            status = run_guided_demo(data, launch, workspace, observer)
        else:
            lines = ScriptedInput(make_demo_script(window, lambda: observer.has_compacted))
            status = asyncio.run(run_unattended(data, launch, workspace, observer, lines))
    finally:
        data.close()
    proof = prove_chat(observer, folder / "data")
    print_proof(proof)
    return status or (EXIT_OK if proof.holds else EXIT_FAILED)


def create_demo_launch(workspace: Path, policy: str, window: int) -> LaunchOptions:
    agent = {"id": "main", "model": _EMBEDDED_MODEL}
    config = workspace / "tidegate.yaml"
    config.write_bytes(msgspec.json.encode({"window": window, "agents": [agent]}))
    passed_on = ("PATH", "LANG", "TIDEGATE_GGUF")
    environment = {"HOME": str(workspace), **{name: os.environ[name] for name in passed_on if name in os.environ}}
    return LaunchOptions(
        locate_config_files(workspace, environment, explicit_file=str(config)),
        environment,
        session_name=DEMO_SESSION,
        policy=policy,
    )


async def run_unattended(
    data: DataFolder,
    launch: LaunchOptions,
    workspace: Path,
    observer: ChatObserver,
    lines: ScriptedInput,
    *,
    provider_for: ProviderFactory = use_configured_provider,
) -> int:
    """Play a script as a plain chat, without a terminal."""
    from tidegate.terminal.signals import run_until_signal
    from tidegate.tui.plain.plain_chat import PlainChat

    sys.stdout.reconfigure(errors="replace")  # type: ignore[union-attr] # it is a text file
    plain = PlainChat(data, launch, workspace, lines, listen=observer.observe, provider_for=provider_for)
    status = await run_until_signal(plain.run())
    return status if plain.was_interrupted or not plain.has_opened else EXIT_OK
