"""A folder of recordings made on the spot, of several projects."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tidegate.proof.session_generator import generate_session


def record(folder: Path, sessions: int, projects: int, turns: int = 3) -> list[Path]:
    """Each is a few windows of 2,000 tokens long."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = []
    for number in range(sessions):
        meta = {"meta": {"repo": f"project-{number % projects}", "agent": "made-up"}}
        messages: Sequence[Any] = list(generate_session(turns, seed=number))
        path = folder / f"session-{number}.jsonl"
        path.write_text("".join(json.dumps(each) + "\n" for each in (meta, *messages)), "utf-8")
        paths.append(path)
    return paths
