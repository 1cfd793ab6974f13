"""`tidegate misses`: what the requests of a session read from the provider's cache, and why they missed the rest."""

import argparse
from collections.abc import Sequence
from typing import TYPE_CHECKING

from tidegate.cli.options import Subparsers, add_command, add_data_options, format_examples
from tidegate.core.text.plural import format_count
from tidegate.terminal.exit_codes import EXIT_OK

if TYPE_CHECKING:  # loaded when the command runs
    from tidegate.session.reports.cache_misses import CachedRequest, CacheReader

_ABOUT = """\
List the requests that read less from the provider's prompt cache than the request before them had left there: who
caused it (the client, tidegate, the user, an expired cache or the provider), the first part that differs, what it cost,
and what to do. It needs usage reports that name cached tokens.
"""


def add_parser(subparsers: Subparsers) -> None:
    examples = format_examples("misses", "build-fix", "build-fix --all", "build-fix --json")
    parser = add_command(
        subparsers,
        "misses",
        run,
        summary="say why requests missed the provider's cache",
        description=_ABOUT,
        epilog=examples,
    )
    add_data_options(parser)
    parser.add_argument("session", metavar="SESSION")
    parser.add_argument("--all", action="store_true", help="list every request, not only those with a miss")
    parser.add_argument("--json", action="store_true", help="every request as JSON")


def run(options: argparse.Namespace) -> int:
    import msgspec

    from tidegate.cli.data_location import open_data_folder, open_existing_log
    from tidegate.cli.view import read_view_config
    from tidegate.session.reports.cache_misses import CacheReader
    from tidegate.terminal.output import print_json

    reader = CacheReader(read_view_config().prices)
    with open_data_folder(options) as data:
        log = open_existing_log(data, options.session)
        requests = [request for event in log.read() if (request := reader.feed(event)) is not None]
    if options.json:
        print_json(msgspec.json.encode(requests))
        return EXIT_OK
    if not reader.reports_cache:
        print(_describe_no_cache(len(requests)))
        return EXIT_OK
    _print_requests([each for each in requests if options.all or each.miss is not None])
    _print_summary(reader)
    return EXIT_OK


def _describe_no_cache(count: int) -> str:
    if not count:
        return "No request has a usage report yet."
    return (
        f"None of {format_count(count, 'usage report')} names tokens of a cache: the provider has none or does not"
        " report it, or the requests do not ask for one. Anthropic's models need `cache_control` marks, which"
        " tidegate's agent sets."
    )


def _print_requests(requests: "Sequence[CachedRequest]") -> None:
    if requests:
        print(f"{'record':>7}  {'input':>9}  {'read':>5}  {'missed':>9}  {'cost':>9}  cause")
    for request in requests:
        line = f"{request.seq:>7}  {request.input_tokens:>9,}  {request.cached_share:>5.0%}"
        miss = request.miss
        if miss is not None:
            cost = f"${miss.dollars:,.4f}" if miss.dollars is not None else "not known"
            line += f"  {miss.missed_tokens:>9,}  {cost:>9}  {miss.describe()}"
        print(line)


def _print_summary(reader: "CacheReader") -> None:
    from tidegate.session.reports.cache_misses import ADVICE

    share = reader.cached_tokens / reader.input_tokens if reader.input_tokens else 0.0
    missed = sum(each.requests for each in reader.sums.values())
    print(
        f"{format_count(reader.calls, 'request')}: {share:.0%} of the input was read from the cache."
        f" {format_count(missed, 'request')} missed a part of it."
    )
    for origin, sums in sorted(reader.sums.items(), key=lambda each: -each[1].tokens):
        cost = f", ${sums.dollars:,.4f}" if sums.dollars else ""
        print(f"- {origin}: {format_count(sums.requests, 'request')}, {sums.tokens:,} tokens{cost}. {ADVICE[origin]}")
    if reader.describe_hour():
        print(f"- {reader.describe_hour()}")
