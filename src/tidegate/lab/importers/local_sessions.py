"""Find the sessions that agents on this machine stored for this user. Nothing is changed there.

Each agent has a folder in the home directory, and most have an environment variable that names another.
"""

import os
from collections.abc import Callable, Mapping
from pathlib import Path

from tidegate.core.errors import BadInput

_SUBAGENT_PREFIX = "agent-"
"""How Claude Code names the files of subagents, which are not sessions of the user."""


def find_local_sessions(agent: str, environment: Mapping[str, str] | None = None) -> list[Path]:
    """Return the session files of an agent, the newest last. BadInput if the agent is unknown or has none here."""
    variables = os.environ if environment is None else environment
    if agent not in _LOCATIONS_BY_AGENT:
        raise BadInput(f"The agent '{agent[:40]}' is unknown.", f"Use one of {', '.join(_LOCATIONS_BY_AGENT)}.")
    folders = _LOCATIONS_BY_AGENT[agent](variables)
    paths = {path.resolve(): path for folder, pattern in folders for path in _match_files(folder, pattern)}
    if not paths:
        looked = ", ".join(dict.fromkeys(str(folder) for folder, _ in folders))
        raise BadInput(f"No sessions of {agent} in {looked}.", "If they are elsewhere, name that folder instead.")
    return sorted(paths.values(), key=lambda path: (path.stat().st_mtime, path))


def _match_files(folder: Path, pattern: str) -> list[Path]:
    try:
        return [path for path in folder.glob(pattern) if path.is_file() and not path.name.startswith(_SUBAGENT_PREFIX)]
    except OSError:
        return []


_Locations = list[tuple[Path, str]]


def _home_folder(variables: Mapping[str, str]) -> Path:
    return Path(variables.get("HOME") or Path.home())


def _claude_code_locations(variables: Mapping[str, str]) -> _Locations:
    folder = variables.get("CLAUDE_CONFIG_DIR")
    homes = [Path(folder)] if folder else [_home_folder(variables) / ".claude", _config_folder(variables) / "claude"]
    return [(home / "projects", "*/*.jsonl") for home in homes]


def _codex_locations(variables: Mapping[str, str]) -> _Locations:
    home = Path(variables.get("CODEX_HOME") or _home_folder(variables) / ".codex")
    return [(home / "sessions", "**/rollout-*.jsonl"), (home / "archived_sessions", "**/rollout-*.jsonl")]


def _opencode_locations(variables: Mapping[str, str]) -> _Locations:
    home = Path(variables.get("XDG_DATA_HOME") or _home_folder(variables) / ".local" / "share") / "opencode"
    name = variables.get("OPENCODE_DB", "")
    database = home / name if name and name != ":memory:" else home / "opencode.db"
    return [(database.parent, database.name), (home / "storage" / "session", "*/ses_*.json")]


def _copilot_locations(variables: Mapping[str, str]) -> _Locations:
    home = Path(variables.get("COPILOT_HOME") or _home_folder(variables) / ".copilot")
    return [(home / "session-state", "*/events.jsonl"), (home / "session-state", "*.jsonl")]


def _gemini_locations(variables: Mapping[str, str]) -> _Locations:
    home = Path(variables.get("GEMINI_CLI_HOME") or _home_folder(variables)) / ".gemini" / "tmp"
    return [(home, "*/chats/session-*.json"), (home, "*/chats/session-*.jsonl")]


def _pi_locations(variables: Mapping[str, str]) -> _Locations:
    home = Path(variables.get("PI_CODING_AGENT_DIR") or _home_folder(variables) / ".pi" / "agent")
    return [(home / "sessions", "**/*.jsonl")]


def _config_folder(variables: Mapping[str, str]) -> Path:
    return Path(variables.get("XDG_CONFIG_HOME") or _home_folder(variables) / ".config")


_LOCATIONS_BY_AGENT: Mapping[str, Callable[[Mapping[str, str]], _Locations]] = {
    "claude-code": _claude_code_locations,
    "codex": _codex_locations,
    "opencode": _opencode_locations,
    "copilot": _copilot_locations,
    "gemini": _gemini_locations,
    "pi": _pi_locations,
}
LOCAL_AGENTS = tuple(_LOCATIONS_BY_AGENT)
