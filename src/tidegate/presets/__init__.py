"""The shipped policies (presets), and loading of a policy by the name of a preset or the path of a file."""

import os
from collections.abc import Mapping
from functools import cache
from importlib import resources
from pathlib import Path

from tidegate.core.config.values import quote_value, suggest_name
from tidegate.core.config.yaml_tree import MAX_YAML_CHARS
from tidegate.core.errors import BadPolicy
from tidegate.core.policy.parser import parse_policy
from tidegate.core.policy.policy import Policy
from tidegate.core.stages import STAGES

DEFAULT_PRESET = "default"
_ENDINGS = (".yaml", ".yml")


@cache
def preset_names() -> tuple[str, ...]:
    """The names of the presets, sorted."""
    files = resources.files(__name__).iterdir()
    return tuple(sorted(file.name.removesuffix(".yaml") for file in files if file.name.endswith(".yaml")))


@cache
def list_context_presets(keys: frozenset[str]) -> tuple[str, ...]:
    """The presets that take over all of these keys of an agent's `context`."""
    contexts = ((name, _shipped(name).context) for name in preset_names())
    return tuple(name for name, context in contexts if context is not None and keys <= context.settings)


@cache
def find_preset_of_aliases(keys: frozenset[str]) -> str:
    """The preset with aliases among these keys: they are from the configuration of the system that it describes."""
    return next((name for name in preset_names() if not keys.isdisjoint(_shipped(name).aliases)), "")


def load(
    name_or_path: str | os.PathLike[str],
    overrides: Mapping[str, object] | None = None,
    *,
    ignore_unknown: bool = False,
) -> Policy:
    """Load a preset or a policy file, with `overrides` for its settings.

    A preset comes before a file of the same name: write `./default` for the file. With `ignore_unknown`, `overrides`
    may have other keys, such as a program's whole configuration.
    """
    wanted = os.fspath(name_or_path)
    if wanted in preset_names():
        if not overrides:
            return _shipped(wanted)
        source = f"{wanted}.yaml"
        data = resources.files(__name__).joinpath(source).read_bytes()
    else:
        source = wanted.encode("utf-8", "backslashreplace").decode()
        data = _read(wanted)
    return parse_policy(
        _decoded(data, source), source=source, stages=STAGES, settings=overrides, ignore_unknown=ignore_unknown
    )


@cache
def _shipped(name: str) -> Policy:
    """A preset without overrides. Cached, because parsing it takes half the time of opening a session."""
    source = f"{name}.yaml"
    text = resources.files(__name__).joinpath(source).read_text("utf-8")
    return parse_policy(text, source=source, stages=STAGES)


def _read(path: str) -> bytes:
    """The bytes of a policy file, at most one more than the limit: the path may lead to anything."""
    try:
        with Path(path).open("rb") as file:
            return file.read(MAX_YAML_CHARS + 1)
    except FileNotFoundError:
        stem = Path(path).name
        for ending in _ENDINGS:
            stem = stem.removesuffix(ending)
        raise BadPolicy(
            f"No policy file or preset is called {quote_value(path)}.", suggest_name(stem, preset_names())
        ) from None
    except (OSError, ValueError) as bad:
        why = getattr(bad, "strerror", None) or str(bad)
        raise BadPolicy(
            f"{quote_value(path)} cannot be read: {why}.", "Give a preset's name or a readable file."
        ) from None


def _decoded(data: bytes, source: str) -> str:
    if len(data) > MAX_YAML_CHARS:
        raise BadPolicy(
            f"{source}: more than {MAX_YAML_CHARS:,} bytes.", "A policy is a short text; is this the right file?"
        )
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as bad:
        line = data.count(b"\n", 0, bad.start) + 1
        raise BadPolicy(f"{source}:{line}: not UTF-8 text.", "Save the file as UTF-8; is it a policy at all?") from None
