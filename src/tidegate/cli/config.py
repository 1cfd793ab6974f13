"""Which configuration a command runs with, and `tidegate config`, which shows it."""

import argparse
import os
from collections.abc import Mapping
from pathlib import Path

import msgspec

from tidegate.agent.config.effective_settings import list_effective_settings
from tidegate.agent.config.files import locate_config_files
from tidegate.agent.config.launch import LaunchOptions, LoadedConfig
from tidegate.agent.config.trust import trust_project_file
from tidegate.core.text.terminal_text import clean_line
from tidegate.terminal.exit_codes import EXIT_FAILED, EXIT_OK
from tidegate.terminal.output import print_json


def config_command(options: argparse.Namespace) -> int:
    if options.trust:
        agreed = trust_project_file(locate_config_files(Path.cwd(), os.environ))
        print("This folder's tidegate.yaml is trusted as it is now." if agreed else "There is no tidegate.yaml here.")
        return EXIT_OK if agreed else EXIT_FAILED
    settings = list_effective_settings(load_chosen_config(options).config, os.environ)
    if options.json:
        rows = [each._asdict() for each in settings]
        print_json(msgspec.json.encode(rows))
        return EXIT_OK
    wide = max(len(each.name) for each in settings)
    for each in settings:
        print(clean_line(each.name).ljust(wide), "", "  (".join(map(clean_line, str(each).split("  (", 1))))
    return EXIT_OK


def load_chosen_config(options: argparse.Namespace, environment: Mapping[str, str] | None = None) -> LoadedConfig:
    environment = os.environ if environment is None else environment
    files = locate_config_files(Path.cwd(), environment, explicit_file=options.config)
    return LaunchOptions(
        files, environment, agent=options.agent, model=options.model, policy=options.policy
    ).load_config()
