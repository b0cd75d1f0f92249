"""Not a rival but the base for two-phase commits: rows with PREPARE TRANSACTION and COMMIT PREPARED on one connection.

A line on stdin is a number of rows; the answer is the seconds that they took.
"""

import sys
import time

import psycopg

from benchmarks.rivals.settings import SERVER


def main():
    with psycopg.connect(SERVER) as connection:
        for line in sys.stdin:
            begun = time.perf_counter()
            for number in range(int(line)):
                connection.tpc_begin(connection.xid(1, f"row-{number}", "bench"))
                connection.execute("insert into received(id, text) values (%s, %s)", (number, "x" * 300))
                connection.tpc_prepare()
                connection.tpc_commit()
            print(time.perf_counter() - begun, flush=True)


if __name__ == "__main__":
    main()
