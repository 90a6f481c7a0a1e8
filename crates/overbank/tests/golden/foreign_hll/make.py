"""Makes the files of this folder with datasketches 5.2.0 (pip) and redis-server 7.0.15: python3 make.py SOCKET

SOCKET is the Unix socket of a running redis-server. Keys are the numbers from 0 on: to DataSketches as 64-bit integers, to Redis as
decimal strings.
"""
import socket
import sys
from pathlib import Path

from datasketches import hll_sketch, tgt_hll_type

HERE = Path(__file__).parent
KINDS = {"4": tgt_hll_type.HLL_4, "6": tgt_hll_type.HLL_6, "8": tgt_hll_type.HLL_8}


def datasketches(lg_k, bits, keys):
    sketch = hll_sketch(lg_k, KINDS[bits])
    for key in range(keys):
        sketch.update(key)
    return sketch


for keys in [0, 3, 20, 300]:
    for bits in KINDS:
        sketch = datasketches(8, bits, keys)
        (HERE / f"ds_8_{keys}_hll{bits}_compact.bin").write_bytes(sketch.serialize_compact())
        (HERE / f"ds_8_{keys}_hll{bits}_updatable.bin").write_bytes(sketch.serialize_updatable())
# One register of 4 bits is an exception.
for bits in KINDS:
    sketch = datasketches(12, bits, 300_000)
    (HERE / f"ds_12_300000_hll{bits}_compact.bin").write_bytes(sketch.serialize_compact())
(HERE / "ds_12_300000_hll4_updatable.bin").write_bytes(datasketches(12, "4", 300_000).serialize_updatable())


def redis(connection, *words):
    request = b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%s\r\n" % (len(word), word) for word in words)
    connection.sendall(request)
    reader = connection.makefile("rb")
    line = reader.readline()
    if line[:1] == b"$":
        return reader.read(int(line[1:]) + 2)[:-2]
    return line.strip()


with socket.socket(socket.AF_UNIX) as connection:
    connection.connect(sys.argv[1])
    for name, keys in [("sparse", 100), ("dense", 20_000)]:
        redis(connection, b"DEL", b"keys")
        for start in range(0, keys, 1000):
            redis(connection, b"PFADD", b"keys", *(b"%d" % key for key in range(start, min(keys, start + 1000))))
        count = redis(connection, b"PFCOUNT", b"keys")
        (HERE / f"redis_{name}_{keys}.bin").write_bytes(redis(connection, b"GET", b"keys"))
        print(name, keys, count)
