/* HyperLogLog in XDP: the register of a key, which only rises. */
#define WITH_REGISTERS
#include "worker.h"

OVERBANK_WORKER(hyperloglog, raise_register(seen));
