#!/usr/bin/env python3
"""DuckDB's answer to `overbank profile FILE`: rows, approximate distinct count, approximate top 10, in one scan.

    python3 bench/rivals/duckdb_profile.py FILE

Every line is one key: no delimiter, quote or escape has a meaning. DuckDB takes the threads and the memory that it likes.
"""

import sys

import duckdb


def main(path):
    rows, distinct, top = duckdb.sql(
        f"""
        SELECT count(*), approx_count_distinct(key), approx_top_k(key, 10)
        FROM read_csv('{path.replace("'", "''")}', columns = {{'key': 'VARCHAR'}}, auto_detect = false, header = false,
                      delim = '\x01', quote = '', escape = '', new_line = '\\n', max_line_size = 16777216,
                      ignore_errors = true)
        """
    ).fetchall()[0]
    print(f"duckdb {duckdb.__version__}")
    print(f"rows {rows}\ndistinct {distinct}")
    for key in top:
        print(key)


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: duckdb_profile.py FILE")
    main(sys.argv[1])
