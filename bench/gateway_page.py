"""How fast the page of the gateway opens: 500 sessions, one of them with 20,000 events, in a real browser.

    .venv/bin/python bench/gateway_page.py [--sessions 500] [--events 20000]

Prints the time from the request to the drawn page, first with nothing read yet, then again. The page of a session
shows the window and the newest requests before the log is read: this time is given, too. The CPU time is that of the
gateway and of this program, without the browser.
"""

import argparse
import asyncio
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from tests.web.browser import READY, launched
from tests.web.live_logs import write_long_session
from tidegate.datafolder.data_folder import DataFolder
from tidegate.gateway.app import Gateway
from tidegate.gateway.server import make_server
from tidegate.gateway.settings import GatewaySettings
from tidegate.web.live.pages import GatewayPage


@contextmanager
def serve(data: DataFolder) -> Iterator[str]:
    settings = GatewaySettings(port=0, window=200_000)
    gateway = Gateway(settings, data)
    gateway.page = GatewayPage(settings, data, gateway.activity)
    server = make_server(gateway, settings)
    thread = threading.Thread(target=lambda: asyncio.run(server.serve()))
    thread.start()
    while not server.started:
        time.sleep(0.01)
    try:
        yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sessions", type=int, default=500)
    parser.add_argument("--events", type=int, default=20_000)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, DataFolder(folder) as data:
        for number in range(options.sessions - 1):
            write_long_session(data, f"claude-{number:03}", 60)
        write_long_session(data, "claude-long", options.events)
        with serve(data) as url, launched() as browser:
            page = browser.new_page()
            page.goto(url + "/healthz")  # the browser itself is warm
            for name, address in (("list", "/ui"), ("session", "/ui/session?name=claude-long")):
                for state in ("first", "again"):
                    started, used = time.perf_counter(), time.process_time()
                    page.goto(url + address)
                    if name == "session":
                        page.wait_for_selector("html[data-newest=yes]")
                        report(f"{name:8} {state:6} newest requests", started, used)
                    page.wait_for_selector(READY)
                    report(f"{name:8} {state:6} complete", started, used)


def report(what: str, started: float, used: float) -> None:
    cpu = time.process_time() - used
    print(f"{what:32} {time.perf_counter() - started:6.2f} s  CPU {cpu:6.2f} s")


if __name__ == "__main__":
    main()
