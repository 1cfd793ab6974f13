"""`tidegate policies`: the presets, as a list or as the files they are."""

import argparse
import shutil
import textwrap
from importlib import resources

from tidegate.apps.choices import OK
from tidegate.core.errors import BadPolicy
from tidegate.core.expression import nearest, quoted
from tidegate.presets import load, names


def policies_command(options: argparse.Namespace) -> int:
    if options.name is None:
        width = min(120, shutil.get_terminal_size((100, 24)).columns)
        for name in names():
            print(textwrap.fill(load(name).about, width, initial_indent=f"{name:10}", subsequent_indent=" " * 10))
        return OK
    if options.name not in names():
        raise BadPolicy(f"No preset is called {quoted(options.name)}.", nearest(options.name, names()))
    print(resources.files("tidegate.presets").joinpath(f"{options.name}.yaml").read_text("utf-8"), end="")
    return OK
