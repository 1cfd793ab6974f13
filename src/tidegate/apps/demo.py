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

from tidegate.agent.chosen import policy_of
from tidegate.agent.commands_opening import Opening
from tidegate.agent.config_file import files_of
from tidegate.apps.choices import FAILED, OK
from tidegate.apps.demo_kept import Seen, summary
from tidegate.apps.plain_out import has_screen
from tidegate.core.errors import BadInput
from tidegate.keep.data import DataFolder
from tidegate.models.local import Embedded

NAME = "demo"
WINDOW, ANSWER = 384, 20
"""Tokens. A model on one core reads some seventy a second: a larger window would take longer to flood."""


def demo_command(options: argparse.Namespace) -> int:
    if options.generated:
        from tidegate.apps.demo_generated import generated_demo

        return generated_demo(options)
    try:
        Embedded(window=options.window or WINDOW)
    except BadInput as bad:
        raise BadInput(bad.args[0], f"{bad.remedy} Without a model: `tidegate demo --generated`.") from None
    with tempfile.TemporaryDirectory(prefix="tidegate-demo-") as folder:
        return chat_demo(Path(folder), options.policy, options.window or WINDOW)


def chat_demo(folder: Path, policy: str, window: int) -> int:
    workspace = folder / "work"
    workspace.mkdir()
    opening = opening_in(workspace, policy, window)
    policy_of(opening.read().config)
    seen = Seen(NAME, window)
    data = DataFolder(folder / "data", secrets=[])
    try:
        if has_screen():
            from tidegate.apps.demo_guided import guided

            status = guided(data, opening, workspace, seen)
        else:
            status = asyncio.run(unattended(data, opening, workspace, seen))
    finally:
        data.close()
    told = summary(seen, folder / "data")
    print(f"{told.text}\n\nThis session is gone with its folder; `tidegate chat` begins one that is kept.")
    return status or (OK if told.holds else FAILED)


def opening_in(workspace: Path, policy: str, window: int) -> Opening:
    agent = {"id": "main", "brain": {"provider": "embedded", "max_output": ANSWER}}
    config = workspace / "tidegate.yaml"
    config.write_bytes(msgspec.json.encode({"window": window, "agents": [agent]}))
    kept = ("PATH", "LANG", "TIDEGATE_GGUF")
    environment = {"HOME": str(workspace), **{name: os.environ[name] for name in kept if name in os.environ}}
    return Opening(files_of(workspace, environment, asked=str(config)), environment, name=NAME, policy=policy)


async def unattended(data: DataFolder, opening: Opening, workspace: Path, seen: Seen) -> int:
    from tidegate.apps.answering import unless_told
    from tidegate.apps.demo_script import Played
    from tidegate.apps.plain import Plain

    sys.stdout.reconfigure(errors="replace")  # type: ignore[union-attr] # it is a text file
    plain = Plain(data, opening, workspace, Played(seen.window), listen=seen.take)
    status = await unless_told(plain.run())
    return status if plain.interrupted or not plain.opened else OK
