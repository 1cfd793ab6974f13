"""`tidegate demo`: the terminal app on the embedded model, in a window that floods within a minute.

On a terminal a script chats and tells what happens; any key takes over. Elsewhere the script plays by itself. Both end
with what was kept, and the proof. Everything happens in a folder that is gone afterwards; neither the user's
configuration nor a key is read.
"""

import argparse
import asyncio
import os
import sys
import tempfile
from pathlib import Path

import msgspec

from tidegate.agent.config.files import locate_config_files
from tidegate.agent.config.launch import LaunchOptions
from tidegate.agent.config.resolved_config import load_configured_policy
from tidegate.core.errors import BadInput
from tidegate.datafolder.data_folder import DataFolder
from tidegate.models.embedded.provider import EmbeddedProvider
from tidegate.proof.chat_proof import ChatObserver, prove_chat
from tidegate.terminal.exit_codes import EXIT_FAILED, EXIT_OK
from tidegate.tui.plain.chat_streams import has_interactive_terminal

DEMO_SESSION = "demo"
DEMO_WINDOW, _MAX_ANSWER_TOKENS = 384, 20
"""Tokens. A model on one core reads some seventy a second: a larger window would take longer to flood."""


def demo_command(options: argparse.Namespace) -> int:
    if options.generated:
        from tidegate.cli.demo.generated import run_generated_demo

        return run_generated_demo(options)
    try:
        EmbeddedProvider(window=options.window or DEMO_WINDOW)
    except BadInput as bad:
        raise BadInput(bad.args[0], f"{bad.remedy} Without a model: `tidegate demo --generated`.") from None
    with tempfile.TemporaryDirectory(prefix="tidegate-demo-") as folder:
        return run_chat_demo(Path(folder), options.policy, options.window or DEMO_WINDOW)


def run_chat_demo(folder: Path, policy: str, window: int) -> int:
    workspace = folder / "work"
    workspace.mkdir()
    opening = create_demo_launch(workspace, policy, window)
    load_configured_policy(opening.load_config().config)
    seen = ChatObserver(DEMO_SESSION, window)
    data = DataFolder(folder / "data", secrets=[])
    try:
        if has_interactive_terminal():
            from tidegate.cli.demo.guided_app import run_guided_demo

            status = run_guided_demo(data, opening, workspace, seen)
        else:
            status = asyncio.run(run_unattended(data, opening, workspace, seen))
    finally:
        data.close()
    told = prove_chat(seen, folder / "data")
    print(f"{told.text}\n\nThis session is gone with its folder; `tidegate chat` begins one that is kept.")
    return status or (EXIT_OK if told.holds else EXIT_FAILED)


def create_demo_launch(workspace: Path, policy: str, window: int) -> LaunchOptions:
    agent = {"id": "main", "brain": {"provider": "embedded", "max_output": _MAX_ANSWER_TOKENS}}
    config = workspace / "tidegate.yaml"
    config.write_bytes(msgspec.json.encode({"window": window, "agents": [agent]}))
    kept = ("PATH", "LANG", "TIDEGATE_GGUF")
    environment = {"HOME": str(workspace), **{name: os.environ[name] for name in kept if name in os.environ}}
    return LaunchOptions(
        locate_config_files(workspace, environment, explicit_file=str(config)),
        environment,
        session_name=DEMO_SESSION,
        policy=policy,
    )


async def run_unattended(data: DataFolder, opening: LaunchOptions, workspace: Path, seen: ChatObserver) -> int:
    from tidegate.cli.demo.script import ScriptedInput
    from tidegate.terminal.signals import run_until_signal
    from tidegate.tui.plain.plain_chat import PlainChat

    sys.stdout.reconfigure(errors="replace")  # type: ignore[union-attr] # it is a text file
    plain = PlainChat(data, opening, workspace, ScriptedInput(seen.window), listen=seen.observe)
    status = await run_until_signal(plain.run())
    return status if plain.was_interrupted or not plain.has_opened else EXIT_OK
