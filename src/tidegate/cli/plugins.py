"""`tidegate plugins`: what installed packages add to tidegate, and what is wrong with it."""

import argparse
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from tidegate.cli.options import Subparsers, add_command, format_examples
from tidegate.terminal.exit_codes import EXIT_FAILED, EXIT_OK

if TYPE_CHECKING:  # loaded when the command runs
    from tidegate.plugins import Plugin, PluginKind

_ABOUT = """\
List the stages, tools, importers, providers and stores that installed packages offer. Each is loaded and checked; a
broken one is listed with its error, and the exit code is 1. docs/extending.md shows how to write one.
"""


def add_parser(subparsers: Subparsers) -> None:
    add_command(
        subparsers,
        "plugins",
        run,
        summary="list and check what installed packages add",
        description=_ABOUT,
        epilog=format_examples("plugins", ""),
    )


def run(options: argparse.Namespace) -> int:
    from tidegate.core.errors import BadInput
    from tidegate.plugins import find_installed_plugins

    plugins = find_installed_plugins()
    if not plugins.plugins and not plugins.problems:
        print("No installed package offers a plugin.")
        return EXIT_OK
    is_broken = bool(plugins.problems)
    for plugin in plugins.plugins:
        line = f"{plugin.kind:9} {plugin.name}  ({plugin.package}: {plugin.target})"
        try:
            _check(plugin)
        except BadInput as broken:
            is_broken = True
            line += f"\n          broken: {broken}"
        print(line)
    for problem in plugins.problems:
        print(problem)
    return EXIT_FAILED if is_broken else EXIT_OK


def _check(plugin: "Plugin") -> None:
    """Raise BadInput if a plugin cannot be used."""
    from tidegate.agent.config.provider_target import KNOWN_PROVIDERS
    from tidegate.agent.plugin_provider import load_provider_plugin
    from tidegate.agent.tools.plugin_tools import load_tool_plugin
    from tidegate.core.stages import STAGES
    from tidegate.lab.importers.plugin_formats import load_importer_plugin
    from tidegate.plugins import find_plugin
    from tidegate.presets import load_stage_plugin
    from tidegate.store.open import BUILTIN_SCHEMES, load_store_plugin

    load: dict[PluginKind, Callable[[Plugin], object]] = {
        "stage": load_stage_plugin,
        "tool": load_tool_plugin,
        "importer": load_importer_plugin,
        "provider": load_provider_plugin,
        "store": load_store_plugin,
    }
    builtin: dict[PluginKind, Iterable[str]] = {
        "stage": STAGES,
        "provider": KNOWN_PROVIDERS,
        "store": BUILTIN_SCHEMES,
    }
    if plugin.name in builtin.get(plugin.kind, ()):
        raise plugin.make_error(f"is never used: tidegate has a {plugin.kind} of this name")
    if plugin.kind != "importer":
        find_plugin(plugin.kind, plugin.name)
    load[plugin.kind](plugin)
