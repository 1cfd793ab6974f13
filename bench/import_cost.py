"""What importing tidegate costs beside httpx: CPU time, the best of several rounds in turn, and modules loaded.

python bench/import_cost.py
"""

import subprocess
import sys

ROUNDS = 9
STATEMENTS = ("import httpx", "import tidegate", "from tidegate import Session")
MEASURE = """
import sys, time
known, start = len(sys.modules), time.process_time()
exec(sys.argv[1])
print(time.process_time() - start, len(sys.modules) - known)
"""


def measure(statement: str) -> tuple[float, int]:
    command = [sys.executable, "-I", "-c", MEASURE, statement]
    seconds, modules = subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()
    return float(seconds), int(modules)


def main() -> None:
    rounds = [[measure(statement) for statement in STATEMENTS] for _ in range(ROUNDS)]
    best = [min(times) for times in zip(*rounds, strict=True)]
    for statement, (seconds, modules) in zip(STATEMENTS, best, strict=True):
        print(f"{statement:30} {seconds * 1000:6.0f} ms {seconds / best[0][0]:6.2f} x {modules:5} modules")


if __name__ == "__main__":
    main()
