"""The configuration file of another system, from which a preset takes its settings.

A JSON file whose keys include the system's own names for the settings of a preset (`aliases` of that preset) is read as
`policy: {name: PRESET, settings: ...}`. Its `model` is the model of the agent if its provider can be told from its
name. Every other key is of no use here and is ignored; API keys come from the environment.
"""

import json
from typing import Final

from tidegate.agent.config.provider_target import guess_provider
from tidegate.core.config.yaml_tree import YamlNode
from tidegate.core.errors import BadInput
from tidegate.presets import find_preset_of_aliases, load

FOREIGN_ENDING: Final = ".json"
_MODEL_KEY: Final = "model"
_AGENT_ID: Final = "assistant"


def adapt_foreign_file(top: YamlNode) -> YamlNode:
    """Return the file as a `tidegate.yaml` would say it; one that is no file of another system is returned as it is."""
    if not isinstance(top.value, dict) or not top.place.source.endswith(FOREIGN_ENDING):
        return top
    preset = find_preset_of_aliases(frozenset(top.value))
    if not preset:
        return top
    aliases = load(preset).aliases
    settings = {key: node for key, node in top.value.items() if key in aliases}
    name = top._replace(value=preset, size=1)
    fields = {"name": name, "settings": top._replace(value=settings)}
    adapted = {"policy": top._replace(value=fields)}
    model = top.value.get(_MODEL_KEY)
    provider = guess_provider(model.value) if model is not None and isinstance(model.value, str) else ""
    if model is not None and provider:
        brain = top._replace(value={"provider": model._replace(value=provider), "model": model})
        agent = top._replace(value={"id": top._replace(value=_AGENT_ID, size=1), "brain": brain})
        adapted["agents"] = top._replace(value=[agent])
    return top._replace(value=adapted)


def find_foreign_name(text: str, setting: str) -> str:
    """Return the name of a setting in this file of another system; "" if the file is none, or has no name for it."""
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
        found = json.loads(text)
    except ValueError:
        found = None
    if not isinstance(found, dict):
        raise BadInput("This file is not a JSON object.", "Change it by hand.")
    return found
