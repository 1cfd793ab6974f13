"""Which configuration a command runs with, and `tidegate config`, which shows it."""

import argparse
import os
from collections.abc import Mapping
from pathlib import Path

import msgspec

from tidegate.agent.chosen import effective
from tidegate.agent.commands_opening import Opening, Read
from tidegate.agent.config_file import files_of
from tidegate.agent.trust import trust
from tidegate.apps.choices import FAILED, OK
from tidegate.apps.terminal import print_json
from tidegate.core.terminal_text import clean_line


def config_command(options: argparse.Namespace) -> int:
    if options.trust:
        agreed = trust(files_of(Path.cwd(), os.environ))
        print("This folder's tidegate.yaml is trusted as it is now." if agreed else "There is no tidegate.yaml here.")
        return OK if agreed else FAILED
    settings = effective(chosen(options).config, os.environ)
    if options.json:
        rows = [each._asdict() for each in settings]
        print_json(msgspec.json.encode(rows))
        return OK
    wide = max(len(each.name) for each in settings)
    for each in settings:
        print(clean_line(each.name).ljust(wide), "", "  (".join(map(clean_line, str(each).split("  (", 1))))
    return OK


def chosen(options: argparse.Namespace, environment: Mapping[str, str] | None = None) -> Read:
    environment = os.environ if environment is None else environment
    files = files_of(Path.cwd(), environment, asked=options.config)
    return Opening(files, environment, agent=options.agent, model=options.model, policy=options.policy).read()
