"""`/config`: what the agent runs with and where it comes from; and changing it, in a file, for good.

A change goes to where the value stands now. What no file says goes to the user's own file, unless one was named. The
file is written by what reads and keeps comments, and only after the whole configuration was read anew with the change
in it: what would not load, or would not hold, is not written.
"""

import io
import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

from tidegate.agent.config.files import read_config_sources, resolve_config
from tidegate.agent.config.limits import UNMERGED_KEYS
from tidegate.agent.config.resolved_config import (
    EffectiveSetting,
    ResolvedConfig,
    list_effective_settings,
    load_configured_policy,
)
from tidegate.agent.config.settings import FileSettings
from tidegate.agent.config.trust import trust_project_file
from tidegate.commands.agent_launch import LaunchOptions
from tidegate.commands.registry import CommandAnswer, CommandContext
from tidegate.core.config.values import quote_value, suggest_name
from tidegate.core.config.yaml_tree import YamlNode, read_yaml
from tidegate.core.errors import BadInput, BadPolicy
from tidegate.core.policy.policy import Policy
from tidegate.disk.atomic_files import make_folder, write_atomically
from tidegate.presets import load
from tidegate.presets import preset_names as presets

_BLANK_LINES: Final = r":[ \t]*(?:#[^\n]*)?\n(?:[ \t]*(?:#[^\n]*)?\n)*"
_MAPPING_INDENT: Final = re.compile(rf"^( *)[^\s#-][^\n]*{_BLANK_LINES}(\1 +)[^\s#-]", re.MULTILINE)
_SEQUENCE_INDENT: Final = re.compile(rf"^( *)[^\s#-][^\n]*{_BLANK_LINES}(\1 *)- ", re.MULTILINE)
"""How a file is indented: it stays so."""
_LISTS_WITH_IDS: Final = {("agents",): 1, ("execution", "hooks"): 2}
"""Lists of things with an id: these are one wish each, and what stands behind that many words is the id."""


async def run_config(place: CommandContext, rest: str) -> CommandAnswer:
    opening = require_launch_options(place)
    name, _, value = rest.partition(" ")
    if value.strip():
        place.require_idle()
        return change_setting(opening, name, " ".join(value.split()))
    settings = list_effective_settings(opening.load_config().config, opening.environment)
    shown = [each for each in settings if name in each.name]
    if not shown:
        return CommandAnswer(
            f"No setting has {quote_value(name)} in its name. {suggest_name(name, [each.name for each in settings])}",
            True,
        )
    wide = max(len(each.name) for each in shown)
    own = [] if name else _list_policy_settings(load_configured_policy(opening.load_config().config))
    return CommandAnswer("\n".join([*(f"{each.name:{wide}}  {each}" for each in shown), *own]))


def _list_policy_settings(policy: Policy) -> Iterator[str]:
    """Settings of the policy that no file gives: they, too, can be set by their names."""
    yield f"settings of the policy {policy.name}:"
    yield from (f"  {name}  {value}" for name, value in policy.settings.items())


def require_launch_options(place: CommandContext) -> LaunchOptions:
    if not isinstance(place.launch_options, LaunchOptions):
        raise BadInput("No configuration is known here.", "Start with `tidegate chat`.")
    return place.launch_options


def complete_setting_names(place: CommandContext | None) -> list[str]:
    """What `/config` completes."""
    if place is None or not isinstance(place.launch_options, LaunchOptions):
        return []
    found = place.launch_options.load_config().config
    return [
        *load_configured_policy(found).settings,
        *(each.name for each in list_effective_settings(found, place.launch_options.environment)),
    ]


# --- changing ---------------------------------------------------------------------------------------------------------


class _SettingChange(NamedTuple):
    """`path` is where in the file, ids standing for their items; `name` is what `effective` calls it."""

    path: tuple[str, ...]
    name: str
    value: object


def change_setting(opening: LaunchOptions, name: str, text: str) -> CommandAnswer:
    before = opening.load_config().config  # refuses what others changed meanwhile: it must not become trusted with this
    wish = _parse_change(before, name, text)
    file = _choose_file(opening, before, wish)
    wishes = [wish]
    if wish.path[0] == "policy" and wish.path[-1] != "name" and opening.policy:
        wishes.insert(0, _SettingChange(("policy", "name"), "policy.name", opening.policy))
    written = _apply_changes(_read_file(file), wishes, file)
    after = _check_change(opening, file, written, wish)
    _write_file(opening, file, written)
    act = "reopen"
    if wish.path[0] == "policy" and opening.policy:
        act = "policy"
    elif "brain" in wish.path and opening.model:
        act = "model"
    also = f", with policy.name {opening.policy}" if len(wishes) > 1 else ""
    return CommandAnswer(f"{wish.name} is {_format_value(after, wish)} from now on, in {file}{also}.", action=act)


def _parse_change(config: ResolvedConfig, name: str, text: str) -> _SettingChange:
    """A bare name is a setting of the policy, unless the files know one of that name."""
    value = _parse_value(text)
    words = tuple(name.split("."))
    if len(words) == 1 and name not in FileSettings.__struct_fields__:
        return _SettingChange(("policy", "settings", name), f"policy.settings.{name}", value)
    if words in (("policy",), ("policy", "name")):
        return _SettingChange(("policy", "name"), "policy.name", _resolve_policy_path(value))
    if words[0] == "models" and len(words) > 2:  # a model's name may have dots
        return _SettingChange(("models", ".".join(words[1:-1]), words[-1]), name, value)
    if words[:2] == ("capabilities", "tools") and len(words) > 3:
        return _SettingChange(("capabilities", "tools", ".".join(words[2:])), name, value)
    if words[0] == "context":
        brain = config.agent.brain.context is not None
        before = ("agents", config.agent.id, "brain", "context") if brain else ("execution", "context")
        return _SettingChange((*before, *words[1:]), name, value)
    return _SettingChange(words, name, value)


def _resolve_policy_path(name: object) -> object:
    """A file is meant from where the user is; in a configuration it is meant from where that stands."""
    if not isinstance(name, str) or name in presets() or "{{" in name:
        return name
    load(name)
    return os.path.abspath(name)


def _parse_value(text: str) -> object:
    if text.startswith("{{"):
        return text
    return _node_to_value(read_yaml(text, "the value"))


def _node_to_value(node: YamlNode) -> object:
    if isinstance(node.value, dict):
        return {key: _node_to_value(each) for key, each in node.value.items()}
    return [_node_to_value(each) for each in node.value] if isinstance(node.value, list) else node.value


def _choose_file(opening: LaunchOptions, config: ResolvedConfig, wish: _SettingChange) -> Path:
    """Where the value stands; or the whole it is a part of, if that stands in one file only; or the user's own."""
    files = opening.files
    units = [wish.name, ".".join(wish.path)]
    units += [".".join(wish.path[: place + 1]) for place, word in enumerate(wish.path) if word in UNMERGED_KEYS]
    units += [".".join(wish.path[: len(head) + 1]) for head in _LISTS_WITH_IDS if wish.path[: len(head)] == head]
    for unit in units:
        stands = config.sources.get(unit, "")
        for file in (files.project, files.user):
            if stands.startswith(f"{file}:"):
                return file
    return files.project if files.is_explicit else files.user


def _read_file(file: Path) -> str:
    try:
        return file.read_text("utf-8-sig")
    except FileNotFoundError:
        return ""


def _apply_changes(text: str, wishes: Sequence[_SettingChange], file: Path) -> str:
    from ruamel.yaml import YAML

    yaml = YAML(typ="rt")
    yaml.preserve_quotes, yaml.width = True, 4_096
    inner, dash = _MAPPING_INDENT.search(text), _SEQUENCE_INDENT.search(text)
    offset = len(dash[2]) - len(dash[1]) if dash else 2
    yaml.indent(mapping=len(inner[2]) - len(inner[1]) if inner else 2, sequence=offset + 2, offset=offset)
    top = yaml.load(text)
    if top is None:
        top = yaml.load("{}")
        top.fa.set_block_style()
    for wish in wishes:
        _set_value(top, wish, file)
    out = io.StringIO()
    yaml.dump(top, out)
    comments = text if text.strip() and yaml.load(text) is None else ""  # nothing but comments: they stay before it
    return f"{comments.rstrip()}\n{out.getvalue()}".lstrip("\n")


def _set_value(top: Any, wish: _SettingChange, file: Path) -> None:
    where: Any = top
    inner: Any
    place = 0
    while place < len(wish.path) - 1:
        word = wish.path[place]
        items = wish.path[: place + 1] in _LISTS_WITH_IDS
        inner = where.get(word) if isinstance(where, dict) else None
        if word == "policy" and isinstance(inner, str):  # the short form
            inner = where[word] = {"name": inner}
        if inner is None:
            inner = where[word] = [] if items else {}
        place += 1
        if items:
            ident = wish.path[place]
            found = next((each for each in inner if isinstance(each, dict) and each.get("id") == ident), None)
            if found is None:
                found = {"id": ident}
                inner.append(found)
            inner, place = found, place + 1
        if not isinstance(inner, dict):
            raise BadInput(f"{'.'.join(wish.path[:place])} is no mapping in {file}.", "Change it there by hand.")
        where = inner
    if wish.path == ("policy", "name") and where.get("name") != wish.value:
        where.pop("settings", None)  # they were meant for another policy
    where[wish.path[-1]] = wish.value


def _check_change(opening: LaunchOptions, file: Path, text: str, wish: _SettingChange) -> ResolvedConfig:
    """The configuration as it would be. Raises what reading it would raise."""
    sources, node = read_config_sources(opening.files), read_yaml(text, str(file))
    sources = sources._replace(user=node) if file == opening.files.user else sources._replace(project=node)
    try:
        after = resolve_config(sources, opening.environment, agent=opening.agent)
        load_configured_policy(after)
    except BadPolicy as bad:  # its line is one of a file that is not written
        raise BadPolicy(re.sub(rf"^{re.escape(str(file))}:\d+: ", "", bad.args[0]), bad.remedy) from None
    if wish.name in after.hidden_paths and "{{" not in str(wish.value):
        raise BadInput(
            f"{wish.name} is a secret, and a file is no place for one.",
            f'Put it into the environment and name it: /config {wish.name} "{{{{env.NAME}}}}".',
        )
    if not after.sources.get(wish.name, after.sources.get(".".join(wish.path), "")).startswith(f"{file}:"):
        raise BadInput(f"{wish.name} would not hold: another file says otherwise.", "Change it there by hand.")
    return after


def _write_file(opening: LaunchOptions, file: Path, text: str) -> None:
    target = Path(os.path.realpath(file))
    mode = target.stat().st_mode & 0o777 if target.exists() else 0o600
    make_folder(target.parent)
    write_atomically(target, text.encode())
    target.chmod(mode)
    if file == opening.files.project and not opening.files.is_explicit:
        trust_project_file(opening.files)  # it was trusted as it was, and this change is the user's own


def _format_value(config: ResolvedConfig, wish: _SettingChange) -> str:
    lines: list[EffectiveSetting] = list_effective_settings(config, {})
    return next((each.value for each in lines if each.name == wish.name), quote_value(wish.value))
