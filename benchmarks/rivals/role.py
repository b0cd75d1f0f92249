"""A process of a rival: ``python -m benchmarks.rivals.role MODULE ROLE`` runs the role until the process is ended."""

import asyncio
import importlib
import sys


def main():
    done = importlib.import_module(f"benchmarks.rivals.{sys.argv[1]}").ROLES[sys.argv[2]]()
    if asyncio.iscoroutine(done):
        asyncio.run(done)


if __name__ == "__main__":
    main()
