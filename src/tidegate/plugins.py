"""Plugins: stages, tools, importers, providers and stores of other packages, which offer them as entry points.

A package lists what it offers in its `pyproject.toml`, one group for each kind (`tidegate.stages`, `tidegate.tools`,
`tidegate.importers`, `tidegate.providers`, `tidegate.stores`):

    [project.entry-points."tidegate.stages"]
    redact = "tidegate_redact:redact"

The installed packages are searched once, when a name is used that tidegate itself does not have, or when a list of the
plugins is asked for. A plugin is imported only when it is used. Every error names the package.
"""

from functools import cache, reduce
from importlib import import_module
from typing import Literal, NamedTuple, get_args

from tidegate.core.errors import BadInput

PluginKind = Literal["stage", "tool", "importer", "provider", "store"]
PLUGIN_KINDS: tuple[PluginKind, ...] = get_args(PluginKind)
_GROUPS: dict[str, PluginKind] = {f"tidegate.{kind}s": kind for kind in PLUGIN_KINDS}
_MAX_FAILURE_CHARS = 300


class Plugin(NamedTuple):
    """Something that a package offers under a name, to be imported from `target` (`module:name` or `module`).

    `package` is the name and version of the package, or "" for a module that belongs to none.
    """

    kind: PluginKind
    name: str
    package: str
    target: str

    @property
    def origin(self) -> str:
        """Where the plugin comes from, in words."""
        return f"the package {self.package}" if self.package else f"the module {self.target.partition(':')[0]}"

    def load(self) -> object:
        """Import the plugin. Raise BadInput for any error of its code."""
        try:
            module, _, path = self.target.partition(":")
            return reduce(getattr, filter(None, path.split(".")), import_module(module))
        except (Exception, SystemExit) as failure:
            raise self.make_error(f"cannot be loaded: {describe_failure(failure)}") from failure

    def make_error(self, problem: str) -> BadInput:
        remedy = "Correct it. Its module must be on the import path of Python, for example through PYTHONPATH."
        if self.package:
            remedy = f"Update or repair the package, or remove it: pip uninstall {self.package.partition(' ')[0]}."
        return BadInput(f"The {self.kind} {_quote(self.name)} of {self.origin} {problem.rstrip('.')}.", remedy)


def _quote(name: str) -> str:
    from tidegate.core.config.values import quote_value  # noqa: PLC0415 - it loads slowly, and stores load this module

    return quote_value(name)


class InstalledPlugins(NamedTuple):
    """All plugins, and a sentence about each package whose list of entry points cannot be read."""

    plugins: tuple[Plugin, ...]
    problems: tuple[str, ...]


def describe_failure(failure: BaseException) -> str:
    """The type and the text of an exception, on one line of bounded length."""
    try:
        text = " ".join(str(failure).split())
    except Exception:  # noqa: BLE001 - a plugin's exception may not even have a text
        text = ""
    return (f"{type(failure).__name__}: {text}" if text else type(failure).__name__)[:_MAX_FAILURE_CHARS]


@cache
def find_installed_plugins() -> InstalledPlugins:
    """Search the installed packages, once per process. A package that is on the path twice counts once."""
    from importlib.metadata import distributions  # noqa: PLC0415 - it is slow to import, and rarely needed

    plugins: dict[tuple[str, str, str], Plugin] = {}
    problems: list[str] = []
    for package in distributions():
        try:
            for entry in package.entry_points:
                if entry.group in _GROUPS:
                    target = entry.value.partition("[")[0].strip()
                    plugin = Plugin(_GROUPS[entry.group], entry.name, f"{package.name} {package.version}", target)
                    plugins.setdefault((entry.group, entry.name, package.name), plugin)
        except Exception as failure:  # noqa: BLE001 - one broken package must not hide the others
            problems.append(f"The entry points of {package.name} cannot be read: {describe_failure(failure)}.")
    return InstalledPlugins(tuple(sorted(plugins.values())), tuple(problems))


def list_plugins(kind: PluginKind) -> list[Plugin]:
    """The installed plugins of a kind, sorted by name."""
    return [plugin for plugin in find_installed_plugins().plugins if plugin.kind == kind]


def find_plugin(kind: PluginKind, name: str) -> Plugin | None:
    """The plugin of this name, or None. Raise BadInput if several packages offer it."""
    matches = [plugin for plugin in list_plugins(kind) if plugin.name == name]
    if len(matches) > 1:
        packages = " and ".join(plugin.package for plugin in matches)
        raise BadInput(
            f"The {kind} {_quote(name)} is offered by several packages: {packages}.", "Uninstall all but one."
        )
    return matches[0] if matches else None


def make_module_plugin(kind: PluginKind, reference: str) -> Plugin:
    """A plugin that is named as `module:name` and belongs to no package."""
    return Plugin(kind, reference, "", reference)
