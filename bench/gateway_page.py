"""How fast the page of the gateway opens: 500 sessions, one of them with 20,000 events, in a real browser.

    .venv/bin/python bench/gateway_page.py [--sessions 500] [--events 20000]

Prints the time from the request to the drawn page, first with nothing read yet, then again; for the session after a
look at the list, and without one. The page of a session shows the window and the newest requests before the log is
read: this time is given, too. The browser takes the times itself, at the frame after the mark: a program that waits for
a mark looks for it only every half second. The CPU time is that of the gateway and of this program, without the
browser.
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
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from tests.web.browser import READY, launched
from tests.web.live_logs import write_long_session
from tidegate.datafolder.data_folder import DataFolder
from tidegate.gateway.app import Gateway
from tidegate.gateway.server import make_server
from tidegate.gateway.settings import GatewaySettings
from tidegate.web.live.pages import GatewayPage

ADDRESSES = {"list": "/ui", "session": "/ui/session?name=claude-long"}
WATCH_MARKS = """() => {
  window.drawn = {};
  const look = () => Object.keys(document.documentElement?.dataset ?? {}).forEach((mark) => {
    if (mark in window.drawn) return;
    window.drawn[mark] = 0;
    requestAnimationFrame(() => setTimeout(() => { window.drawn[mark] = performance.now() / 1000; }));
  });
  new MutationObserver(look).observe(document, { attributes: true, subtree: true, childList: true });
}"""


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
        with launched() as browser:
            for names in (("list", "session"), ("session",)):
                with serve(data) as url:
                    print("the list, then a session:" if "list" in names else "a session, by its address:")
                    for name in names:
                        measure(browser, url, name)


def measure(browser: Any, url: str, name: str) -> None:
    page = browser.new_page()
    page.goto(url + "/healthz")  # the browser itself is warm
    page.add_init_script(f"({WATCH_MARKS})()")
    for state in ("first", "again"):
        start = time.process_time()
        page.goto(url + ADDRESSES[name])
        page.wait_for_selector(READY)
        cpu = time.process_time() - start
        drawn = page.evaluate("new Promise((done) => setTimeout(() => done(window.drawn), 200))")
        if name == "session":
            print(f"  {name:8} {state:6} newest requests {drawn['newest']:6.2f} s")
        print(f"  {name:8} {state:6} complete        {drawn['ready']:6.2f} s  CPU {cpu:6.2f} s")
    page.close()


if __name__ == "__main__":
    main()
