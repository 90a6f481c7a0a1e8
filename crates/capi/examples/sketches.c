/* How often keys came, and how many different ones there were. */
#include "overbank.h"
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static int failed(const char *what) {
    fprintf(stderr, "%s: %s\n", what, overbank_last_error());
    return 1;
}

int main(void) {
    static const char *names[] = {"ada", "grace", "ada", "barbara"};
    overbank_hasher hasher = {.seed_low = 42, .kind = OVERBANK_HASH_XXH3};
    overbank_bytes keys[4];
    overbank_hash hashes[4];
    for (int i = 0; i < 4; i++) {
        keys[i].data = (const uint8_t *)names[i];
        keys[i].len = strlen(names[i]);
    }
    if (overbank_hash_keys(&hasher, keys, 4, hashes)) return failed("hash");

    overbank_sketch *counts = NULL, *users = NULL;
    if (overbank_count_min_with_error(1e-4, 0.01, &hasher, &counts)) return failed("count-min");
    if (overbank_hyperloglog_new(12, &hasher, &users)) return failed("HyperLogLog");
    if (overbank_sketch_update(counts, hashes, NULL, 4)) return failed("update");
    if (overbank_sketch_update(users, hashes, NULL, 4)) return failed("update");

    overbank_count ada;
    overbank_real distinct;
    if (overbank_sketch_counts(counts, &hashes[0], 1, 0.99, &ada)) return failed("counts");
    if (overbank_sketch_distinct(users, 2.0, &distinct)) return failed("distinct");
    printf("ada came %" PRIu64 " times, %" PRIu64 " at least, %" PRIu64 " at most\n", ada.estimate, ada.lower, ada.upper);
    printf("%.0f different names\n", distinct.estimate);
    overbank_sketch_free(counts);
    overbank_sketch_free(users);
    return 0;
}
