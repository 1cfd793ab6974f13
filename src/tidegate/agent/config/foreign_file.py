"""The configuration file of another system, from which a preset takes its settings.

A JSON file whose keys are those of CowAgent (see `foreign_formats`) is read as `policy: {name: PRESET, settings: ...}`.
Its `model` is the model of the agent, whose name decides the provider. Other keys are not used, and a notice lists
them. API keys come from the environment. `tidegate config import` converts the files of other systems.
"""

import json
from typing import Final

from tidegate.agent.config.foreign_formats import AGENT_ID, ForeignFormat, recognize_format
from tidegate.agent.config.provider_target import guess_provider
from tidegate.core.config.yaml_tree import YamlNode
from tidegate.core.errors import BadInput
from tidegate.presets import find_preset_of_aliases, load

FOREIGN_ENDING: Final = ".json"
_MODEL_KEY: Final = "model"


def adapt_foreign_file(top: YamlNode) -> YamlNode:
    """Return the file of another system as a `tidegate.yaml` would say it; any other file is returned as it is."""
    source_format = _recognize(top)
    if source_format is None:
        return top
    aliases = load(source_format.preset).aliases
    if not aliases:
        raise top.place.make_error(
            f"this is a configuration of {source_format.system}.",
            f"Run `tidegate config import {top.place.source}`, which writes a tidegate.yaml.",
        )
    assert isinstance(top.value, dict)
    settings = {key: node for key, node in top.value.items() if key in aliases}
    name = top._replace(value=source_format.preset, size=1)
    fields = {"name": name, "settings": top._replace(value=settings)}
    adapted = {"policy": top._replace(value=fields)}
    model = top.value.get(_MODEL_KEY)
    if model is not None and model.value:
        provider = guess_provider(model.value) if isinstance(model.value, str) else ""
        agent_model = top._replace(value={"provider": model._replace(value=provider), "model": model})
        agent = top._replace(value={"id": top._replace(value=AGENT_ID, size=1), "model": agent_model})
        adapted["agents"] = top._replace(value=[agent])
    return top._replace(value=adapted)


def list_unused_keys(top: YamlNode) -> tuple[str, ...]:
    """Return the keys of a file of another system that are not used here."""
    source_format = _recognize(top)
    if source_format is None or not isinstance(top.value, dict):
        return ()
    return tuple(key for key in top.value if key != _MODEL_KEY and key not in load(source_format.preset).aliases)


def _recognize(top: YamlNode) -> ForeignFormat | None:
    if not isinstance(top.value, dict) or not top.place.source.endswith(FOREIGN_ENDING):
        return None
    source_format = recognize_format({key: _to_shape(node) for key, node in top.value.items()})
    return None if source_format is None or source_format.is_native else source_format


def _to_shape(node: YamlNode) -> object:
    """The keys of a node that decide which format it is."""
    return dict.fromkeys(node.value, True) if isinstance(node.value, dict) else True


def find_foreign_name(text: str, setting: str) -> str:
    """Return the name of a setting in this file of another system; "" if it is another file, or has no name for it."""
    values = _read_object(text)
    preset = find_preset_of_aliases(frozenset(values))
    aliases = load(preset).aliases if preset else {}
    names = [alias for alias, name in aliases.items() if setting in (alias, name)]
    return names[0] if names else ""


def set_foreign_value(text: str, name: str, value: object) -> str:
    """Return the file with another value of this key."""
    return json.dumps({**_read_object(text), name: value}, indent=2, ensure_ascii=False) + "\n"


def _read_object(text: str) -> dict[str, object]:
    try:
        value = json.loads(text)
    except ValueError:
        value = None
    if not isinstance(value, dict):
        raise BadInput("This file is not a JSON object.", "Change it by hand.")
    return value
