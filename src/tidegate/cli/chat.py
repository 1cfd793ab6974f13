"""`tidegate chat`: from the command line to the app, or where there is no terminal for one, to plain lines."""

import argparse
import os
import time
from pathlib import Path

from tidegate.agent.config.files import locate_config_files
from tidegate.agent.config.launch import LaunchOptions
from tidegate.agent.config.resolved_config import collect_secret_values, load_configured_policy
from tidegate.cli.data_location import locate_data_folder
from tidegate.cli.options import STORE_VARIABLE
from tidegate.core.text.secrets import keys_of
from tidegate.datafolder.data_folder import DataFolder
from tidegate.terminal.exit_codes import EXIT_OK
from tidegate.tui.plain.chat_streams import format_resume_hint, has_interactive_terminal


def chat_command(options: argparse.Namespace) -> int:
    files = locate_config_files(Path.cwd(), os.environ, explicit_file=options.config)
    opening = LaunchOptions(files, os.environ, agent=options.agent, model=options.model, policy=options.policy)
    read = opening.load_config()
    load_configured_policy(read.config)  # a wrong one is a wrong call: said before anything is opened
    secrets = [*keys_of(os.environ), *collect_secret_values(read.config, os.environ)]
    data = DataFolder(
        locate_data_folder(options), store=options.store or os.environ.get(STORE_VARIABLE, ""), secrets=secrets
    )
    try:
        name = (
            options.session
            or (find_last_session(data) if options.last else "")
            or _make_session_name(read.config.settings.app.app_id)
        )
        opening = opening._replace(session_name=name)
        if options.plain or not has_interactive_terminal():
            from tidegate.tui.plain.plain_chat import run_plain_chat

            return run_plain_chat(data, opening, Path.cwd(), secrets=secrets)
        from tidegate.tui.app import ChatApp

        app = ChatApp(data, opening, Path.cwd(), dark=options.theme != "light")
        app.run()
        if app.failure is not None:
            raise app.failure
        print(format_resume_hint(app.session_name))
        return app.return_code or EXIT_OK
    finally:
        data.close()


def _make_session_name(app_id: str) -> str:
    return f"{app_id}-{time.strftime('%Y%m%d-%H%M%S')}-{os.getpid()}"


def find_last_session(data: DataFolder) -> str:
    """Those of subagents do not count: nobody talks with them. One used in the future was used under a wrong clock."""
    found = [info for info in data.store.sessions() if ".task-" not in info.name]
    now = data.clock()
    return next((info.name for info in found if info.used <= now), found[0].name if found else "")
