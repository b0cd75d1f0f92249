"""The application of all rivals: commits rows, and passes each to the way in the same transaction.

``python -m benchmarks.rivals.application MODULE`` obeys lines on stdin, "first last rows-in-a-transaction pause", and
answers each with the seconds that each transaction took.
"""

import importlib
import json
import sys
import time

import psycopg

from benchmarks.rivals.settings import CLIENT

TEXT = "x" * 300


def main():
    way = importlib.import_module(f"benchmarks.rivals.{sys.argv[1]}")
    committed = getattr(way, "committed", None)
    with psycopg.connect(CLIENT) as connection:
        print("ready", flush=True)
        for line in sys.stdin:
            first, last, together, pause = line.split()
            took = []
            for low in range(int(first), int(last) + 1, int(together)):
                begun = time.perf_counter()
                for number in range(low, min(low + int(together), int(last) + 1)):
                    connection.execute("insert into orders values (%s, %s)", (number, TEXT))
                    way.enqueue(connection, number, TEXT)
                connection.commit()
                if committed is not None:
                    committed(low, TEXT)
                took.append(time.perf_counter() - begun)
                if float(pause):
                    time.sleep(float(pause))
            print(json.dumps(took), flush=True)


if __name__ == "__main__":
    main()
