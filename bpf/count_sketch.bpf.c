/* Count sketch in XDP: three rows, a counter of each, to which the key is added or from which it is taken. τ compares with absolute values. */
#define WITH_COUNTERS
#include "worker.h"

OVERBANK_WORKER(count_sketch, {
    count(seen, 0, overbank_is_negative(seen->hash.low, 0));
    count(seen, 1, overbank_is_negative(seen->hash.low, 1));
    count(seen, 2, overbank_is_negative(seen->hash.low, 2));
});
