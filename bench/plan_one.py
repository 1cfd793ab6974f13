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
    given = json.load(sys.stdin)
    now = 0.0
    policy = presets.load(given["policy"], given["settings"]) if given["settings"] else presets.load(given["policy"])
    session = Session(policy=policy, window=given["window"], count="chars/4", clock=lambda: now)
    spent = []
    for message in given["messages"]:
        if message["role"] == "assistant":
            now += SECONDS_PER_CALL
            begun = process_time()
            session.fit()
            spent.append(process_time() - begun)
        session.add(message)
    json.dump(spent, sys.stdout)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
