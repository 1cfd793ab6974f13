"""Changing a setting in a configuration file.

A change goes to the file that has the value now. A value that no file has goes to the user's own file, unless a file
was named. Comments and indentation are kept. The whole configuration is read with the change before anything is
written: a change that would not load, or would have no effect, is refused.
"""

import io
import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

from tidegate.agent.config.effective_settings import list_effective_settings
from tidegate.agent.config.files import read_config_sources, read_config_text, resolve_config
from tidegate.agent.config.foreign_file import FOREIGN_ENDING, find_foreign_name, set_foreign_value
from tidegate.agent.config.launch import LaunchOptions
from tidegate.agent.config.limits import UNMERGED_KEYS
from tidegate.agent.config.resolved_config import ResolvedConfig, load_configured_policy
from tidegate.agent.config.settings import EARLIER_KEYS, LISTS_WITH_IDS, FileSettings
from tidegate.agent.config.trust import trust_project_file
from tidegate.core.config.values import quote_value
from tidegate.core.config.yaml_tree import read_yaml
from tidegate.core.errors import BadInput, BadPolicy
from tidegate.disk.atomic_files import make_folder, write_atomically
from tidegate.presets import load, preset_names

_BLANK_LINES: Final = r":[ \t]*(?:#[^\n]*)?\n(?:[ \t]*(?:#[^\n]*)?\n)*"
_MAPPING_INDENT: Final = re.compile(rf"^( *)[^\s#-][^\n]*{_BLANK_LINES}(\1 +)[^\s#-]", re.MULTILINE)
_SEQUENCE_INDENT: Final = re.compile(rf"^( *)[^\s#-][^\n]*{_BLANK_LINES}(\1 *)- ", re.MULTILINE)
"""The indentation of a file, which a change keeps."""


class _SettingChange(NamedTuple):
    """`path` is the place in the file, with ids for list items; `name` is the name in `list_effective_settings`."""

    path: tuple[str, ...]
    name: str
    value: object


class ChangedSetting(NamedTuple):
    """A setting that was written to `file`.

    `path` is its place in the file and `value` its new value as text. `written_policy` is the name of the policy that
    was written with it, or "".
    """

    path: tuple[str, ...]
    name: str
    value: str
    file: Path
    written_policy: str = ""


def change_setting(options: LaunchOptions, name: str, text: str) -> ChangedSetting:
    """Set a value in the file it comes from.

    A setting of a policy that was only switched to is written together with the name of that policy.
    """
    before = options.load_config().config  # refuses a file that others changed: this change must not make it trusted
    change = _parse_change(before, name, text)
    file = _choose_file(options, before, change)
    changes, written_policy = [change], ""
    if change.path[0] == "policy" and change.path[-1] != "name" and options.policy:
        written_policy = options.policy
        changes.insert(0, _SettingChange(("policy", "name"), "policy.name", written_policy))
    text = _read_file(file)
    if file.suffix == FOREIGN_ENDING and text.strip():
        change = _rename_foreign_setting(change, text, file)
        new_text = set_foreign_value(text, change.path[-1], change.value)
    else:
        new_text = _apply_changes(text, changes, file)
    after = _check_change(options, file, new_text, change)
    _write_file(options, file, new_text)
    return ChangedSetting(change.path, change.name, _format_value(after, change), file, written_policy)


def _parse_change(config: ResolvedConfig, name: str, text: str) -> _SettingChange:
    """Read a name and a value. A name without dots is a setting of the policy, unless it is a key of the file."""
    value = _parse_value(text)
    words = _use_current_keys(tuple(name.split(".")))
    name = ".".join(words)
    if len(words) == 1 and name not in FileSettings.__struct_fields__:
        return _SettingChange(("policy", "settings", name), f"policy.settings.{name}", value)
    if words in (("policy",), ("policy", "name")):
        return _SettingChange(("policy", "name"), "policy.name", _resolve_policy_path(value))
    if words[0] == "models" and len(words) > 2:  # a model's name may have dots
        return _SettingChange(("models", ".".join(words[1:-1]), words[-1]), name, value)
    if words[:2] == ("capabilities", "tools") and len(words) > 3:
        return _SettingChange(("capabilities", "tools", ".".join(words[2:])), name, value)
    if words[0] == "context":
        is_of_model = config.agent.model.context is not None
        before = ("agents", config.agent.id, "model", "context") if is_of_model else ("execution", "context")
        return _SettingChange((*before, *words[1:]), name, value)
    return _SettingChange(words, name, value)


def _use_current_keys(words: tuple[str, ...]) -> tuple[str, ...]:
    """Return the name of a setting with the current names of keys that had others."""
    first = {"agents": 2, "execution": 1, "context": 1}.get(words[0], len(words))
    return words[:first] + tuple(EARLIER_KEYS.get(word, word) for word in words[first:])


def _key_in_file(mapping: Any, word: str) -> str:
    """Return the key as the file has it, which may be an earlier name of it."""
    earlier = next((each for each, now in EARLIER_KEYS.items() if now == word), word)
    return earlier if isinstance(mapping, dict) and earlier in mapping else word


def _resolve_policy_path(name: object) -> object:
    """Make the path of a policy file absolute: typed paths are relative to the working directory, not to the file."""
    if not isinstance(name, str) or name in preset_names() or "{{" in name:
        return name
    load(name)
    return os.path.abspath(name)


def _parse_value(text: str) -> object:
    if text.startswith("{{"):
        return text
    return read_yaml(text, "the value").to_plain()


def _choose_file(options: LaunchOptions, config: ResolvedConfig, change: _SettingChange) -> Path:
    """Return the file that has the value, else the file with the whole it belongs to, else the user's own."""
    files = options.files
    units = [change.name, ".".join(change.path)]
    units += [".".join(change.path[: index + 1]) for index, word in enumerate(change.path) if word in UNMERGED_KEYS]
    units += [".".join(change.path[: len(head) + 1]) for head in LISTS_WITH_IDS if change.path[: len(head)] == head]
    for unit in units:
        source = config.sources.get(unit, "")
        for file in (files.project, files.user):
            if source.startswith(f"{file}:"):
                return file
    return files.project if files.is_explicit else files.user


def _read_file(file: Path) -> str:
    try:
        return file.read_text("utf-8-sig")
    except FileNotFoundError:
        return ""


def _rename_foreign_setting(change: _SettingChange, text: str, file: Path) -> _SettingChange:
    """Return the change under the name that the file of another system has for the setting."""
    name = find_foreign_name(text, change.path[-1]) if change.path[:2] == ("policy", "settings") else ""
    if not name:
        raise BadInput(
            f"{file.name} has no name for {change.name}: it is a file of another system.",
            "Write a tidegate.yaml and name that with --config.",
        )
    return _SettingChange(("policy", "settings", name), f"policy.settings.{name}", change.value)


def _apply_changes(text: str, changes: Sequence[_SettingChange], file: Path) -> str:
    from ruamel.yaml import YAML  # noqa: PLC0415 - only a change needs it

    yaml = YAML(typ="rt")
    yaml.preserve_quotes, yaml.width = True, 4_096
    inner, dash = _MAPPING_INDENT.search(text), _SEQUENCE_INDENT.search(text)
    offset = len(dash[2]) - len(dash[1]) if dash else 2
    yaml.indent(mapping=len(inner[2]) - len(inner[1]) if inner else 2, sequence=offset + 2, offset=offset)
    top = yaml.load(text)
    if top is None:
        top = yaml.load("{}")
        top.fa.set_block_style()
    for change in changes:
        _set_value(top, change, file)
    out = io.StringIO()
    yaml.dump(top, out)
    comments = text if text.strip() and yaml.load(text) is None else ""  # only comments: keep them in front
    return f"{comments.rstrip()}\n{out.getvalue()}".lstrip("\n")


def _set_value(top: Any, change: _SettingChange, file: Path) -> None:
    mapping: Any = top
    inner: Any
    index = 0
    while index < len(change.path) - 1:
        word = change.path[index]
        has_ids = change.path[: index + 1] in LISTS_WITH_IDS
        word = _key_in_file(mapping, word)
        inner = mapping.get(word) if isinstance(mapping, dict) else None
        if word == "policy" and isinstance(inner, str):  # the short form
            inner = mapping[word] = {"name": inner}
        if inner is None:
            inner = mapping[word] = [] if has_ids else {}
        index += 1
        if has_ids:
            ident = change.path[index]
            entry = next((each for each in inner if isinstance(each, dict) and each.get("id") == ident), None)
            if entry is None:
                entry = {"id": ident}
                inner.append(entry)
            inner, index = entry, index + 1
        if not isinstance(inner, dict):
            raise BadInput(f"{'.'.join(change.path[:index])} is not a mapping in {file}.", "Change it there by hand.")
        mapping = inner
    if change.path == ("policy", "name") and mapping.get("name") != change.value:
        mapping.pop("settings", None)  # they belong to another policy
    mapping[_key_in_file(mapping, change.path[-1])] = change.value


def _check_change(options: LaunchOptions, file: Path, text: str, change: _SettingChange) -> ResolvedConfig:
    """Return the configuration with the change, or raise what reading it would raise."""
    sources, node = read_config_sources(options.files), read_config_text(text, str(file))
    sources = sources._replace(user=node) if file == options.files.user else sources._replace(project=node)
    try:
        after = resolve_config(sources, options.environment, agent=options.agent)
        load_configured_policy(after)
    except BadPolicy as error:  # its line number is of a text that is not written
        raise BadPolicy(re.sub(rf"^{re.escape(str(file))}:\d+: ", "", error.args[0]), error.remedy) from None
    if change.name in after.hidden_paths and "{{" not in str(change.value):
        raise BadInput(
            f"{change.name} is a secret, and secrets do not belong in a file.",
            f'Put it into the environment and name it: /config {change.name} "{{{{env.NAME}}}}".',
        )
    if not after.sources.get(change.name, after.sources.get(".".join(change.path), "")).startswith(f"{file}:"):
        raise BadInput(f"{change.name} would have no effect: another file sets it.", "Change it there by hand.")
    return after


def _write_file(options: LaunchOptions, file: Path, text: str) -> None:
    target = Path(os.path.realpath(file))
    mode = target.stat().st_mode & 0o777 if target.exists() else 0o600
    make_folder(target.parent)
    write_atomically(target, text.encode())
    target.chmod(mode)
    if file == options.files.project and not options.files.is_explicit:
        trust_project_file(options.files)  # it was trusted before, and the user made this change


def _format_value(config: ResolvedConfig, change: _SettingChange) -> str:
    settings = list_effective_settings(config, {})
    return next((each.value for each in settings if each.name == change.name), quote_value(change.value))
