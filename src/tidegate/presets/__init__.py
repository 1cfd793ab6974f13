"""The shipped policies (presets), and loading of a policy by the name of a preset or the path of a file."""

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from importlib import resources
from pathlib import Path

from tidegate.core.config.values import match_spelling, quote_value, suggest_name
from tidegate.core.config.yaml_tree import MAX_YAML_CHARS, YamlNode, read_yaml
from tidegate.core.errors import BadInput, BadPolicy
from tidegate.core.policy.external_stage import ExternalStage, find_stage_problem
from tidegate.core.policy.parser import RULE_KEYS, parse_policy
from tidegate.core.policy.policy import Policy, Stage
from tidegate.core.stages import STAGES
from tidegate.plugins import Plugin, find_plugin, list_plugins, make_module_plugin

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
    contexts = ((name, _load_preset(name).context) for name in preset_names())
    return tuple(name for name, context in contexts if context is not None and keys <= context.settings)


@cache
def find_preset_of_aliases(keys: frozenset[str]) -> str:
    """The preset with aliases among these keys: they are from the configuration of the system that it describes."""
    return next((name for name in preset_names() if not keys.isdisjoint(_load_preset(name).aliases)), "")


@cache
def find_preset_of_setting(name: str) -> str:
    """The preset with a setting of this name, which only one may have."""
    (name_of_preset,) = (preset for preset in preset_names() if name in _load_preset(preset).settings)
    return name_of_preset


def load(
    name_or_path: str | os.PathLike[str],
    overrides: Mapping[str, object] | None = None,
    *,
    stages: Iterable[Stage] = (),
    ignore_unknown: bool = False,
    import_stages: bool = True,
) -> Policy:
    """Load a preset or a policy file, with `overrides` for its settings.

    A preset comes before a file of the same name: write `./default` for the file. With `ignore_unknown`, `overrides`
    may have other keys, such as a program's whole configuration.

    `stages` are functions that the file may use as stages, under their own names. It may also use the stages that
    installed packages offer and, as `module:name`, any function that can be imported; `import_stages=False` forbids
    the latter, for a file that you do not trust. See docs/extending.md.
    """
    name = os.fspath(name_or_path)
    known_stages = _KnownStages(stages, import_stages)
    if name in preset_names():
        if not overrides:
            return _load_preset(name)
        source, tree = f"{name}.yaml", _read_preset(name)
    else:
        source = name.encode("utf-8", "backslashreplace").decode()
        tree = read_yaml(_decode_text(_read(name), source), source)
    return parse_policy(
        tree,
        source=source,
        stages=known_stages,
        settings=overrides,
        ignore_unknown=ignore_unknown,
    )


class _KnownStages(Mapping[str, Stage]):
    """The stages that a policy file may name. Packages are searched only for a name that is not known otherwise."""

    def __init__(self, functions: Iterable[Stage], import_stages: bool) -> None:
        self._stages = dict(STAGES)
        self._import_stages = import_stages
        for stage in functions:
            name = getattr(stage, "__name__", "")
            problem = find_stage_problem(stage, RULE_KEYS)
            if not name or problem:
                raise BadPolicy(
                    f"The stage {name or repr(stage)} {problem or 'has no name'}.", "Correct what you pass as stages."
                )
            if match_spelling(name, self._stages) in self._stages:
                raise BadPolicy(f"There are two stages with the name {quote_value(name)}.", "Rename yours.")
            self._stages[name] = ExternalStage(name, f"the module {stage.__module__}", stage)

    def __getitem__(self, name: str) -> Stage:
        if name not in self._stages:
            self._stages[name] = load_stage_plugin(self._find(name))
        return self._stages[name]

    def _find(self, name: str) -> Plugin:
        is_reference = re.fullmatch(r"[\w.]*\w:\w[\w.]*", name)
        plugin = make_module_plugin("stage", name) if is_reference else find_plugin("stage", name)
        if plugin is None:
            raise KeyError(name)
        if not plugin.package and not self._import_stages:
            raise BadInput(
                f"The stage {quote_value(name)} would import a module, and this policy file is not trusted to do that.",
                "A project's file chose this policy. Choose it in your own tidegate.yaml or with --policy, or install"
                " the stage as a package (docs/extending.md).",
            )
        return plugin

    def __iter__(self) -> Iterator[str]:
        yield from {*self._stages, *(plugin.name for plugin in list_plugins("stage"))}

    def __len__(self) -> int:
        return len(list(iter(self)))


def load_stage_plugin(plugin: Plugin) -> Stage:
    """Import a stage and check its signature. Raise BadInput if it cannot be used."""
    stage = plugin.load()
    problem = find_stage_problem(stage, RULE_KEYS)
    if problem or not callable(stage):
        raise plugin.make_error(problem)
    return ExternalStage(plugin.name, plugin.origin, stage)


@cache
def _load_preset(name: str) -> Policy:
    """A preset without overrides. Cached, because parsing it takes half the time of opening a session."""
    return parse_policy(_read_preset(name), source=f"{name}.yaml", stages=STAGES)


@cache
def _read_preset(name: str) -> YamlNode:
    """The values of a preset's file. Cached for the many loads that differ only in their overrides."""
    source = f"{name}.yaml"
    return read_yaml(resources.files(__name__).joinpath(source).read_text("utf-8"), source)


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


def _decode_text(data: bytes, source: str) -> str:
    if len(data) > MAX_YAML_CHARS:
        raise BadPolicy(
            f"{source}: more than {MAX_YAML_CHARS:,} bytes.", "A policy is a short text; is this the right file?"
        )
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as bad:
        line = data.count(b"\n", 0, bad.start) + 1
        raise BadPolicy(f"{source}:{line}: not UTF-8 text.", "Save the file as UTF-8; is it a policy at all?") from None
