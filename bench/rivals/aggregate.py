#!/usr/bin/env python3
"""How often each key of a Parquet file comes, by DuckDB, Polars or DataFusion, as `overbank-bench aggregate` asks for it.

    data/rivals/bin/python bench/rivals/aggregate.py ENGINE FILE MEMORY_BYTES

    ENGINE   duckdb, polars, datafusion: as they come
             duckdb_limited, datafusion_limit: told a limit of four times MEMORY_BYTES, but no less than 256 MiB; they may spill to disk
             polars_streaming: by its streaming engine

The last line is JSON: wall and CPU time of the query, which groups and sums up groups, counts, and squares of counts; the peak of
resident memory beyond what was held before; and `source_ns`, what it takes the same engine to read the file and sum up the lengths of
its keys, which the query does, too.
"""

import json
import resource
import sys
import tempfile
import time


def resident_bytes(field):
    """A line of /proc/self/status in bytes."""
    with open("/proc/self/status", encoding="ascii") as status:
        for line in status:
            if line.startswith(field):
                return int(line.split()[1]) * 1024
    return 0


def cpu_ns():
    """User and system time of this process, all threads."""
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return int((usage.ru_utime + usage.ru_stime) * 1e9)


def duckdb_engine(path, limit_bytes):
    """Queries of DuckDB; the first number of `read` is the sum of lengths."""
    import duckdb

    connection = duckdb.connect()
    if limit_bytes:
        connection.execute(f"SET memory_limit = '{limit_bytes}B'")
        # Order costs memory, and is not asked for.
        connection.execute("SET preserve_insertion_order = false")
    source = f"read_parquet('{path}')"
    return (
        lambda: connection.execute(f"SELECT sum(strlen(key)) FROM {source}").fetchone(),
        lambda: connection.execute(
            "SELECT count(*), sum(n), sum(n * n) FROM "
            f"(SELECT key, count(*) AS n FROM {source} GROUP BY key)"
        ).fetchone(),
    )


def polars_engine(path, engine):
    """Queries of Polars."""
    import polars as pl

    def collect(frame):
        return frame.collect(engine=engine).row(0)

    return (
        lambda: collect(pl.scan_parquet(path).select(pl.col("key").str.len_bytes().cast(pl.UInt64).sum())),
        lambda: collect(
            pl.scan_parquet(path)
            .group_by("key")
            .agg(pl.len().cast(pl.UInt64).alias("n"))
            .select(pl.len(), pl.col("n").sum().alias("records"), (pl.col("n") * pl.col("n")).sum().alias("squares"))
        ),
    )


def datafusion_engine(path, limit_bytes):
    """Queries of DataFusion."""
    import datafusion

    runtime = datafusion.RuntimeEnvBuilder()
    if limit_bytes:
        runtime = runtime.with_disk_manager_os().with_fair_spill_pool(limit_bytes)
    context = datafusion.SessionContext(datafusion.SessionConfig(), runtime)
    context.register_parquet("records", path, file_extension="")

    def row(query):
        columns = context.sql(query).collect()[0].columns
        return tuple(column[0].as_py() for column in columns)

    return (
        lambda: row("SELECT sum(octet_length(key)) FROM records"),
        lambda: row(
            "SELECT count(*), sum(n), sum(n * n) FROM (SELECT key, count(*) AS n FROM records GROUP BY key)"
        ),
    )


def main(name, path, memory_bytes):
    limit_bytes = max(4 * memory_bytes, 256 << 20)
    read, group = {
        "duckdb": lambda: duckdb_engine(path, 0),
        "duckdb_limited": lambda: duckdb_engine(path, limit_bytes),
        "polars": lambda: polars_engine(path, "in-memory"),
        "polars_streaming": lambda: polars_engine(path, "streaming"),
        "datafusion": lambda: datafusion_engine(path, 0),
        "datafusion_limit": lambda: datafusion_engine(path, limit_bytes),
    }[name]()
    held = resident_bytes("VmRSS")
    try:
        with open("/proc/self/clear_refs", "w", encoding="ascii") as forget:
            forget.write("5")
    except OSError:
        pass  # The peak is then that since the process started.
    cpu, wall = cpu_ns(), time.perf_counter_ns()
    groups, records, squares = (int(number) for number in group())
    wall, cpu = time.perf_counter_ns() - wall, cpu_ns() - cpu
    peak = max(0, resident_bytes("VmHWM") - held)
    started = time.perf_counter_ns()
    read()
    source = time.perf_counter_ns() - started
    answer = {"groups": groups, "records": records, "squares": squares}
    print(json.dumps(answer | {"wall_ns": wall, "cpu_ns": cpu, "peak_bytes": peak, "source_ns": source}))


if __name__ == "__main__":
    if len(sys.argv) != 4:
        sys.exit("usage: aggregate.py ENGINE FILE MEMORY_BYTES")
    with tempfile.TemporaryDirectory() as scratch:
        tempfile.tempdir = scratch
        main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
