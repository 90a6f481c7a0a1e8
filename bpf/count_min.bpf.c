/* Count-min in XDP: three rows, a counter of each. */
#define WITH_COUNTERS
#include "worker.h"

OVERBANK_WORKER(count_min, {
    count(seen, 0, 0);
    count(seen, 1, 0);
    count(seen, 2, 0);
});
