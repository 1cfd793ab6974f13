"""The notice about rules in `allow_commands`.

In earlier versions a rule matched every command that began with it. Now it matches whole commands, so an old rule may
allow less than its author meant. Each rule is explained once; a file in the data folder lists those explained.
"""

from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple

import msgspec

from tidegate.agent.config.resolved_config import ResolvedConfig
from tidegate.agent.tools.command_rules import describe_command_rule, parse_command_rule, suggest_command_rule
from tidegate.core.errors import NotKept
from tidegate.disk.atomic_files import write_atomically

_EXPLAINED_FILE: Final = "explained_rules.json"


class RuleNotice(NamedTuple):
    """`explained` are its rules with their files, without those that match nothing: these are explained every time."""

    text: str
    folder: Path | None
    explained: tuple[str, ...]

    def mark_shown(self) -> None:
        explained = _read_explained(self.folder)
        if self.folder is not None and not explained.issuperset(self.explained):
            with suppress(NotKept):  # it will be shown again
                whole = msgspec.json.encode(sorted(explained.union(self.explained)))
                write_atomically(self.folder / _EXPLAINED_FILE, whole, durable=False)


def make_rule_notice(config: ResolvedConfig, folder: Path | None) -> RuleNotice:
    """Make the notice about rules that were not explained yet. Its text is empty if there are none."""
    explained_keys = _read_explained(folder)
    lines: list[str] = []
    explained: list[str] = []
    for number, rule in enumerate(config.settings.capabilities.allow_commands, 1):
        source = config.sources.get(f"capabilities.allow_commands.{number}", "capabilities.allow_commands")
        key = f"{source.partition(' ')[0].rpartition(':')[0]}: {rule}"
        if key in explained_keys:
            continue
        lines.append(f'{source}: "{rule}" {describe_command_rule(rule)}. {suggest_command_rule(rule)}')
        explained += [key] if parse_command_rule(rule) is not None else []
    text = "\n".join(["Rules in allow_commands now match whole commands:", *lines]) if lines else ""
    return RuleNotice(text, folder, tuple(explained))


def _read_explained(folder: Path | None) -> frozenset[str]:
    try:
        data = (folder / _EXPLAINED_FILE).read_bytes() if folder is not None else b"[]"
        return frozenset(msgspec.json.decode(data, type=list[str]))
    except (OSError, msgspec.MsgspecError):
        return frozenset()
