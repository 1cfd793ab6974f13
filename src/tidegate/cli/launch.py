"""The agent that the options of `run`, `chat` and `config` choose: its configuration, secrets and session name."""

import argparse
import os
from pathlib import Path

from tidegate.agent.config.files import locate_config_files
from tidegate.agent.config.launch import LaunchOptions
from tidegate.agent.config.resolved_config import ResolvedConfig, collect_secret_values
from tidegate.core.text.secrets import keys_of


def make_launch_options(options: argparse.Namespace) -> LaunchOptions:
    files = locate_config_files(Path.cwd(), os.environ, explicit_file=options.config)
    return LaunchOptions(files, os.environ, agent=options.agent, model=options.model, policy=options.policy)


def collect_secrets(config: ResolvedConfig) -> list[str]:
    """Return every value to mask: the keys in the environment and the secrets of the configuration."""
    return [*keys_of(os.environ), *collect_secret_values(config, os.environ)]
