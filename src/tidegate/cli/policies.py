"""`tidegate policies`: the presets, as a list or as the files they are."""

import argparse
import shutil
import textwrap
from importlib import resources

from tidegate.core.config.values import quote_value, suggest_name
from tidegate.core.errors import BadPolicy
from tidegate.presets import load, preset_names
from tidegate.terminal.exit_codes import EXIT_OK


def policies_command(options: argparse.Namespace) -> int:
    if options.name is None:
        width = min(120, shutil.get_terminal_size((100, 24)).columns)
        for name in preset_names():
            print(textwrap.fill(load(name).about, width, initial_indent=f"{name:10}", subsequent_indent=" " * 10))
        return EXIT_OK
    if options.name not in preset_names():
        raise BadPolicy(f"No preset is called {quote_value(options.name)}.", suggest_name(options.name, preset_names()))
    print(resources.files("tidegate.presets").joinpath(f"{options.name}.yaml").read_text("utf-8"), end="")
    return EXIT_OK
