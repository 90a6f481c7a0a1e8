/* What `overbank monitor --xdp` counts: sizes of flows by count-min, and how many there are by HyperLogLog, with one hash. */
#define WITH_COUNTERS
#define WITH_REGISTERS
#include "worker.h"

OVERBANK_WORKER(flows, {
    count(seen, 0, 0);
    count(seen, 1, 0);
    count(seen, 2, 0);
    raise_register(seen);
});
