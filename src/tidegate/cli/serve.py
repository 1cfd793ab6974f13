"""`tidegate serve`: the gateway between clients and their providers."""

import argparse
import os
import shlex
from collections.abc import Callable, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING

from tidegate.cli.extras import require_packages
from tidegate.cli.options import Subparsers, add_command, add_data_options, parse_port, parse_positive_int, parse_window
from tidegate.cli.wrapped_clients import CLIENTS, TOKEN_HEADER, TOKEN_VARIABLE, WrappedClient, make_client_setup
from tidegate.terminal.exit_codes import EXIT_OK

if TYPE_CHECKING:  # loaded when the command runs
    from collections.abc import Iterator
    from pathlib import Path
    from socket import socket

    from tidegate.agent.config.resolved_config import ResolvedConfig
    from tidegate.agent.config.settings import GatewayFileSettings
    from tidegate.core.events import Event
    from tidegate.gateway.settings import GatewaySettings

_ABOUT = """\
Start a gateway, and point a client at it by its base URL. The whole conversation is kept in a log, and the provider
gets a view of it that fits the window. With --no-recall, a request that needs no edit is forwarded byte for byte.
docs/gateway.md has the set-up for each client. The same settings can be in the section `gateway:` of tidegate.yaml;
options come first.
"""
_EPILOG = """\
The gateway listens on 127.0.0.1. Any other address needs a token: --token-env names the environment variable that has
it, and clients send it in the header x-tidegate-token. Without a token, every user of this machine can use the gateway;
keys of its own (key_env) are then not used. Keys of clients are passed on and never stored. The page /ui shows the
sessions while they run; `tidegate ui` opens it.

examples:
  tidegate serve
  eval "$(tidegate serve --env claude)" && claude
  tidegate serve --window 32000 --upstream openai=http://127.0.0.1:8080/v1
  tidegate serve --host 0.0.0.0 --token-env GATEWAY_TOKEN
  tidegate serve --workers 4 --store postgresql://worker@db/tidegate          docs/team.md: several hosts
"""


def add_parser(subparsers: Subparsers) -> None:
    parser = add_command(
        subparsers, "serve", run, summary="start a gateway for any client", description=_ABOUT, epilog=_EPILOG
    )
    add = parser.add_argument
    add("--host", default="", metavar="ADDRESS", help="the address to listen on (default: 127.0.0.1)")
    add("--port", type=parse_port, default=None, metavar="N", help="the port to listen on (default: 8484)")
    add_gateway_options(parser)
    add(
        "--token-env",
        action="append",
        default=[],
        metavar="NAME",
        help="an environment variable with a token that clients must send",
    )
    add(
        "--on-store-failure",
        choices=("forward", "refuse"),
        default=None,
        help="what happens to requests and answers that cannot be logged (default: forward)",
    )
    add(
        "--workers",
        type=parse_positive_int,
        default=1,
        metavar="N",
        help="processes that serve the port together; any of them serves any session (default: 1)",
    )
    add("--quiet", action="store_true", help="do not print a line per request")
    add("--otel", action="store_true", help="make OpenTelemetry spans of model calls, tool calls and compactions")
    add(
        "--env", choices=tuple(CLIENTS), metavar="CLIENT", help="print how to point this client at the gateway, and end"
    )
    add_data_options(parser)


def add_gateway_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of every command that runs a gateway."""
    add = parser.add_argument
    add(
        "--upstream",
        action="append",
        default=[],
        metavar="NAME=URL",
        help="where requests go: anthropic=URL, openai=URL or gemini=URL; openai-NAME=URL adds another one",
    )
    add("--window", type=parse_window, default=None, metavar="TOKENS", help="use this window for every model")
    add("--policy", default="", metavar="NAME_OR_FILE", help="the policy of new sessions (default: default)")
    add("--no-recall", action="store_true", help="do not offer models a hidden tool to read back what left the view")
    add(
        "--recall-tool",
        metavar="NAME",
        default="",
        help="the client itself has the tool `recall` under this name; with `tidegate mcp` in Claude Code it is"
        " mcp__tidegate__recall",
    )
    add(
        "--state-notes",
        action="store_true",
        help="before a sweep, the client's own model writes down the state of the work, with the client's key, login"
        " and costs (default: off)",
    )
    add(
        "--state-notes-model",
        metavar="MODEL",
        default="",
        help="this model of the same provider writes the notes (turns them on; it cannot read the cache of the other)",
    )
    add(
        "--state-notes-compaction",
        action="store_true",
        help="experimental: state notes of newer Claude models at api.anthropic.com are asked for as compactions by the"
        " provider, which keep the thinking of the newest turns (turns them on)",
    )
    add("--config", default="", metavar="FILE", help="use this file instead of the tidegate.yaml of this folder")


def run(options: argparse.Namespace) -> int:
    require_packages("uvicorn", "httptools", "zstandard", *(["opentelemetry"] if options.otel else []))

    from tidegate.gateway.settings import check_settings

    gateway = load_gateway_config(options).settings.gateway
    settings = make_gateway_settings(options, gateway, {})
    check_settings(settings)
    if options.env:
        variable = (options.token_env or gateway.token_envs or ("",))[0]
        print(describe_client_setup(CLIENTS[options.env], f"http://{settings.host}:{settings.port}", variable))
        return EXIT_OK
    check_before_start(settings)
    _hide_keys()
    if options.workers == 1:
        _serve(options, settings)
    else:
        _serve_with_workers(options, settings)
    return EXIT_OK


def _hide_keys() -> None:
    """Remove the keys from what other processes of this user see of this one in `/proc`."""
    from tidegate.agent.environment import hide_environment

    hide_environment()


def _describe_open_door(settings: "GatewaySettings") -> list[str]:
    """What others can do with a gateway without a token."""
    if settings.has_door:
        return []
    lines = [
        "tidegate: no token is set: every user and program of this machine can send requests through this gateway and"
        " continue a session whose name they know. To prevent it: --token-env NAME"
    ]
    for upstream in settings.upstreams:
        if upstream.key:
            lines.append(
                f"tidegate: the key_env of {upstream.name} is not used: without a token, anyone could spend it"
            )
    return lines


def _serve(options: argparse.Namespace, settings: "GatewaySettings", listener: "socket | None" = None) -> None:
    from tidegate.agent.provider_connection import build_model_overrides
    from tidegate.cli.data_location import open_data_folder
    from tidegate.core.text.secrets import keys_of
    from tidegate.gateway.app import Gateway
    from tidegate.gateway.server import open_listener, print_log_line, run_gateway
    from tidegate.terminal.output import hide_engine_warnings
    from tidegate.web.live.pages import GatewayPage

    if listener is not None:  # a worker, a process of its own
        _hide_keys()
        hide_engine_warnings()

    secrets = [*keys_of(os.environ), *settings.tokens, *(each.key for each in settings.upstreams if each.key)]
    with open_data_folder(options, create=True, secrets=secrets) as data:
        log_line = (lambda line: None) if options.quiet else print_log_line
        gateway = Gateway(settings, data, log_line, make_watcher=make_span_watcher if options.otel else None)
        prices = build_model_overrides(load_gateway_config(options))
        gateway.page = GatewayPage(settings, data, gateway.activity, prices=prices)
        if listener is not None:
            run_gateway(gateway, settings, listener)
            return
        with open_listener(settings) as own, _announce(settings, data.root, own):
            run_gateway(gateway, settings, own)


def _serve_with_workers(options: argparse.Namespace, settings: "GatewaySettings") -> None:
    from functools import partial

    from tidegate.cli.data_location import open_data_folder
    from tidegate.gateway.server import open_listener, print_log_line
    from tidegate.gateway.workers import Workers

    with open_data_folder(options, create=True, secrets=[]) as data:  # reports an unusable store, and migrates it
        root = data.root
    names = ("data", "store", "quiet", "otel", "config")
    shared = argparse.Namespace(**{name: getattr(options, name) for name in names})
    with open_listener(settings) as listener, _announce(settings, root, listener, options.workers):
        Workers(partial(_serve, shared, settings), listener, options.workers, print_log_line).run(
            settings.shutdown_timeout
        )


@contextmanager
def _announce(settings: "GatewaySettings", root: "Path", listener: "socket", workers: int = 1) -> "Iterator[None]":
    """Say where the gateway listens, and let `tidegate ui` find it while it runs."""
    import time

    from tidegate.gateway.running import RunningGateway, announce_gateway
    from tidegate.gateway.server import print_log_line
    from tidegate.web.live.login import make_page_link

    host, port = listener.getsockname()[:2]
    address = f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
    token = "" if settings.tokens else settings.page_token
    link = make_page_link(address, token, time.time()) if token else f"{address}/ui"
    who = "listening" if workers == 1 else f"{workers} workers listen"
    print_log_line(f"tidegate: {who} on {address}, data in {root}; watch it at {link}")
    notices = [f"tidegate: {each}" for each in (settings.summary_notice, settings.state_notes_notice) if each]
    for line in [*_describe_open_door(settings), *notices]:
        print_log_line(line)
    with announce_gateway(root, RunningGateway(address, token, time.time())):
        yield


def make_span_watcher(session: str) -> "Callable[[Event], None]":
    """What makes spans of the events of a session, with the program's own set-up of OpenTelemetry."""
    from tidegate.integrations.otel_spans import create_span_watcher

    return create_span_watcher(session=session)


def describe_client_setup(client: WrappedClient, url: str, token_variable: str = "") -> str:
    """Lines for a shell that point a client at a running gateway, whose token is in this variable."""
    setup = make_client_setup(client, url, os.environ)
    variables = [*client.environment, *client.json_environment]  # without those that name temporary files
    variables = [name for name in variables if setup.environment[name]]
    lines = [f"export {name}={shlex.quote(setup.environment[name])}" for name in variables]
    if token_variable and client.header_variable is not None:
        lines.append(f'export {client.header_variable[0]}="{TOKEN_HEADER}: ${token_variable}"')
    elif token_variable and TOKEN_VARIABLE in client.environment:
        lines.append(f'export {TOKEN_VARIABLE}="${token_variable}"')
    elif token_variable:
        lines.append(f"# the gateway has a token: let the client send the header {TOKEN_HEADER}: ${token_variable}")
    if client.by_hand:
        lines.append("# " + client.by_hand.replace("{url}", url))
    elif setup.arguments:
        lines.append(f"alias {client.program}={shlex.quote(shlex.join([client.program, *setup.arguments]))}")
    return "\n".join(lines)


def load_gateway_config(options: argparse.Namespace) -> "ResolvedConfig":
    """The configuration files of this folder and this user."""
    from pathlib import Path

    from tidegate.agent.config.files import locate_config_files
    from tidegate.agent.config.launch import LaunchOptions

    files = locate_config_files(Path.cwd(), os.environ, explicit_file=options.config)
    return LaunchOptions(files, os.environ).load_config().config


def check_before_start(settings: "GatewaySettings") -> None:
    """Report before anything is opened what cannot work: a faulty policy, and Bedrock without AWS credentials."""
    from tidegate.core.errors import BadInput
    from tidegate.gateway.aws_signature import AwsSigner
    from tidegate.presets import load

    for policy in (settings.policy, *settings.policies.values()):
        load(policy)
    for upstream in settings.upstreams:
        if upstream.aws_region and not settings.has_door:
            raise BadInput(
                "Without a token, anyone on this machine could spend your AWS credentials.",
                "Set one with --token-env NAME.",
            )
        if upstream.aws_region:
            AwsSigner(upstream.aws_region)


def make_gateway_settings(
    options: argparse.Namespace, file_settings: "GatewayFileSettings", other_upstreams: Mapping[str, str]
) -> "GatewaySettings":
    """The settings of the command line over those of the file. BadInput for a variable that is not set."""
    from tidegate.core.errors import BadInput
    from tidegate.gateway.settings import GatewaySettings, parse_upstream
    from tidegate.session.state_notes import COMPACTION_NOTES

    def read_variable(name: str) -> str:
        value = os.environ.get(name, "")
        if not value:
            raise BadInput(f"The environment variable {name} is not set.", f"Set {name}, or name another one.")
        return value

    keys = {name: read_variable(each.key_env) for name, each in file_settings.upstreams.items() if each.key_env}
    urls = {**other_upstreams, **{name: each.url for name, each in file_settings.upstreams.items()}}
    urls |= dict(text.split("=", 1) if "=" in text else (text, "") for text in options.upstream)
    upstreams = [parse_upstream(f"{name}={url}", keys) for name, url in urls.items()]
    return GatewaySettings(
        host=options.host or file_settings.host,
        port=file_settings.port if options.port is None else options.port,
        upstreams=tuple(upstreams),
        window=options.window or file_settings.window,
        windows=file_settings.windows,
        policy=options.policy or file_settings.policy or "default",
        policies=file_settings.policies,
        tokens=tuple(map(read_variable, options.token_env or file_settings.token_envs)),
        allowed_origins=file_settings.allowed_origins,
        on_store_failure=options.on_store_failure or file_settings.on_store_failure,
        recall=file_settings.recall and not options.no_recall,
        recall_tool=options.recall_tool,
        state_notes=COMPACTION_NOTES
        if options.state_notes_compaction
        else file_settings.state_notes or options.state_notes or bool(options.state_notes_model),
        state_notes_model=options.state_notes_model or file_settings.state_notes_model,
        retention_days=file_settings.retention_days,
        max_body=file_settings.max_body,
        open_sessions=file_settings.open_sessions,
    )
