"""Time each `Session.fit` of one recording under one policy, for bench/plan.py.

Takes one JSON object on the standard input: `policy`, `settings`, `window`, `messages`. It uses only what
the first versions had, so that they can be timed with their own code.
"""

import json
import sys
from time import process_time

from tidegate import Session, presets

SECONDS_PER_CALL = 30.0


def main() -> int:
    job = json.load(sys.stdin)
    now = 0.0
    policy = presets.load(job["policy"], job["settings"]) if job["settings"] else presets.load(job["policy"])
    session = Session(policy=policy, window=job["window"], count="chars/4", clock=lambda: now)
    seconds = []
    for message in job["messages"]:
        if message["role"] == "assistant":
            now += SECONDS_PER_CALL
            start = process_time()
            session.fit()
            seconds.append(process_time() - start)
        session.add(message)
    json.dump(seconds, sys.stdout)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
