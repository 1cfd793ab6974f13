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

from tidegate.agent.chosen import Config, Setting, effective, policy_of
from tidegate.agent.commands_opening import Opening
from tidegate.agent.config import Settings
from tidegate.agent.config_file import config_of, read_sources
from tidegate.agent.limits import WHOLE
from tidegate.agent.trust import trust
from tidegate.core.errors import BadInput, BadPolicy
from tidegate.core.expression import nearest, quoted
from tidegate.core.policy import Policy
from tidegate.core.yaml_nodes import Node, read_yaml
from tidegate.disk.writing import make_folder, write_whole
from tidegate.keep.commands import Answer, Place
from tidegate.presets import load
from tidegate.presets import names as presets

_GAP: Final = r":[ \t]*(?:#[^\n]*)?\n(?:[ \t]*(?:#[^\n]*)?\n)*"
_MAPPING: Final = re.compile(rf"^( *)[^\s#-][^\n]*{_GAP}(\1 +)[^\s#-]", re.MULTILINE)
_SEQUENCE: Final = re.compile(rf"^( *)[^\s#-][^\n]*{_GAP}(\1 *)- ", re.MULTILINE)
"""How a file is indented: it stays so."""
_LISTS: Final = {("agents",): 1, ("execution", "hooks"): 2}
"""Lists of things with an id: these are one wish each, and what stands behind that many words is the id."""


async def config(place: Place, rest: str) -> Answer:
    opening = opening_of(place)
    name, _, value = rest.partition(" ")
    if value.strip():
        place.still()
        return changed(opening, name, " ".join(value.split()))
    settings = effective(opening.read().config, opening.environment)
    shown = [each for each in settings if name in each.name]
    if not shown:
        return Answer(
            f"No setting has {quoted(name)} in its name. {nearest(name, [each.name for each in settings])}", True
        )
    wide = max(len(each.name) for each in shown)
    own = [] if name else _policy_lines(policy_of(opening.read().config))
    return Answer("\n".join([*(f"{each.name:{wide}}  {each}" for each in shown), *own]))


def _policy_lines(policy: Policy) -> Iterator[str]:
    """Settings of the policy that no file gives: they, too, can be set by their names."""
    yield f"settings of the policy {policy.name}:"
    yield from (f"  {name}  {value}" for name, value in policy.settings.items())


def opening_of(place: Place) -> Opening:
    if not isinstance(place.opening, Opening):
        raise BadInput("No configuration is known here.", "Start with `tidegate chat`.")
    return place.opening


def names(place: Place | None) -> list[str]:
    """What `/config` completes."""
    if place is None or not isinstance(place.opening, Opening):
        return []
    found = place.opening.read().config
    return [*policy_of(found).settings, *(each.name for each in effective(found, place.opening.environment))]


# --- changing ---------------------------------------------------------------------------------------------------------


class _Change(NamedTuple):
    """`path` is where in the file, ids standing for their items; `name` is what `effective` calls it."""

    path: tuple[str, ...]
    name: str
    value: object


def changed(opening: Opening, name: str, text: str) -> Answer:
    before = opening.read().config  # refuses what others changed meanwhile: it must not become trusted with this
    wish = _change(before, name, text)
    file = _file(opening, before, wish)
    wishes = [wish]
    if wish.path[0] == "policy" and wish.path[-1] != "name" and opening.policy:
        wishes.insert(0, _Change(("policy", "name"), "policy.name", opening.policy))
    written = _with(_text(file), wishes, file)
    after = _tried(opening, file, written, wish)
    _write(opening, file, written)
    act = "reopen"
    if wish.path[0] == "policy" and opening.policy:
        act = "policy"
    elif "brain" in wish.path and opening.model:
        act = "model"
    also = f", with policy.name {opening.policy}" if len(wishes) > 1 else ""
    return Answer(f"{wish.name} is {_value(after, wish)} from now on, in {file}{also}.", act=act)


def _change(config: Config, name: str, text: str) -> _Change:
    """A bare name is a setting of the policy, unless the files know one of that name."""
    value = _parsed(text)
    words = tuple(name.split("."))
    if len(words) == 1 and name not in Settings.__struct_fields__:
        return _Change(("policy", "settings", name), f"policy.settings.{name}", value)
    if words in (("policy",), ("policy", "name")):
        return _Change(("policy", "name"), "policy.name", _policy(value))
    if words[0] == "models" and len(words) > 2:  # a model's name may have dots
        return _Change(("models", ".".join(words[1:-1]), words[-1]), name, value)
    if words[:2] == ("capabilities", "tools") and len(words) > 3:
        return _Change(("capabilities", "tools", ".".join(words[2:])), name, value)
    if words[0] == "context":
        brain = config.agent.brain.context is not None
        before = ("agents", config.agent.id, "brain", "context") if brain else ("execution", "context")
        return _Change((*before, *words[1:]), name, value)
    return _Change(words, name, value)


def _policy(name: object) -> object:
    """A file is meant from where the user is; in a configuration it is meant from where that stands."""
    if not isinstance(name, str) or name in presets() or "{{" in name:
        return name
    load(name)
    return os.path.abspath(name)


def _parsed(text: str) -> object:
    if text.startswith("{{"):
        return text
    return _plain(read_yaml(text, "the value"))


def _plain(node: Node) -> object:
    if isinstance(node.value, dict):
        return {key: _plain(each) for key, each in node.value.items()}
    return [_plain(each) for each in node.value] if isinstance(node.value, list) else node.value


def _file(opening: Opening, config: Config, wish: _Change) -> Path:
    """Where the value stands; or the whole it is a part of, if that stands in one file only; or the user's own."""
    files = opening.files
    units = [wish.name, ".".join(wish.path)]
    units += [".".join(wish.path[: place + 1]) for place, word in enumerate(wish.path) if word in WHOLE]
    units += [".".join(wish.path[: len(head) + 1]) for head in _LISTS if wish.path[: len(head)] == head]
    for unit in units:
        stands = config.sources.get(unit, "")
        for file in (files.project, files.user):
            if stands.startswith(f"{file}:"):
                return file
    return files.project if files.asked else files.user


def _text(file: Path) -> str:
    try:
        return file.read_text("utf-8-sig")
    except FileNotFoundError:
        return ""


def _with(text: str, wishes: Sequence[_Change], file: Path) -> str:
    from ruamel.yaml import YAML  # noqa: PLC0415 - only who changes a file needs it

    yaml = YAML(typ="rt")
    yaml.preserve_quotes, yaml.width = True, 4_096
    inner, dash = _MAPPING.search(text), _SEQUENCE.search(text)
    offset = len(dash[2]) - len(dash[1]) if dash else 2
    yaml.indent(mapping=len(inner[2]) - len(inner[1]) if inner else 2, sequence=offset + 2, offset=offset)
    top = yaml.load(text)
    if top is None:
        top = yaml.load("{}")
        top.fa.set_block_style()
    for wish in wishes:
        _put(top, wish, file)
    out = io.StringIO()
    yaml.dump(top, out)
    comments = text if text.strip() and yaml.load(text) is None else ""  # nothing but comments: they stay before it
    return f"{comments.rstrip()}\n{out.getvalue()}".lstrip("\n")


def _put(top: Any, wish: _Change, file: Path) -> None:
    where: Any = top
    inner: Any
    place = 0
    while place < len(wish.path) - 1:
        word = wish.path[place]
        items = wish.path[: place + 1] in _LISTS
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


def _tried(opening: Opening, file: Path, text: str, wish: _Change) -> Config:
    """The configuration as it would be. Raises what reading it would raise."""
    sources, node = read_sources(opening.files), read_yaml(text, str(file))
    sources = sources._replace(user=node) if file == opening.files.user else sources._replace(project=node)
    try:
        after = config_of(sources, opening.environment, agent=opening.agent)
        policy_of(after)
    except BadPolicy as bad:  # its line is one of a file that is not written
        raise BadPolicy(re.sub(rf"^{re.escape(str(file))}:\d+: ", "", bad.args[0]), bad.remedy) from None
    if wish.name in after.hidden and "{{" not in str(wish.value):
        raise BadInput(
            f"{wish.name} is a secret, and a file is no place for one.",
            f'Put it into the environment and name it: /config {wish.name} "{{{{env.NAME}}}}".',
        )
    if not after.sources.get(wish.name, after.sources.get(".".join(wish.path), "")).startswith(f"{file}:"):
        raise BadInput(f"{wish.name} would not hold: another file says otherwise.", "Change it there by hand.")
    return after


def _write(opening: Opening, file: Path, text: str) -> None:
    target = Path(os.path.realpath(file))
    mode = target.stat().st_mode & 0o777 if target.exists() else 0o600
    make_folder(target.parent)
    write_whole(target, text.encode())
    target.chmod(mode)
    if file == opening.files.project and not opening.files.asked:
        trust(opening.files)  # it was trusted as it was, and this change is the user's own


def _value(config: Config, wish: _Change) -> str:
    lines: list[Setting] = effective(config, {})
    return next((each.value for each in lines if each.name == wish.name), quoted(wish.value))
