/* Each kind of sketch: fed, merged, written, read, asked. */
#include "check.h"
#include <math.h>
#include <string.h>

enum { KEYS = 500, LEN = 8 };

static overbank_hasher hasher = {.seed_low = 7, .kind = OVERBANK_HASH_XXH3};
static uint8_t texts[KEYS][LEN];
static overbank_bytes keys[KEYS];
static overbank_hash hashes[KEYS];
static uint64_t weights[KEYS];
static double values[KEYS];

static overbank_sketch *make(uint32_t kind) {
    overbank_sketch *sketch = NULL;
    switch (kind) {
    case OVERBANK_COUNT_MIN: OK(overbank_count_min_new(4096, 3, &hasher, &sketch)); break;
    case OVERBANK_COUNT_SKETCH: OK(overbank_count_sketch_new(4096, 5, &hasher, &sketch)); break;
    case OVERBANK_HYPERLOGLOG: OK(overbank_hyperloglog_new(12, &hasher, &sketch)); break;
    case OVERBANK_LOGLOG: OK(overbank_loglog_new(12, &hasher, &sketch)); break;
    case OVERBANK_LOCHER: OK(overbank_locher_new(512, 3, 16, 16, &hasher, &sketch)); break;
    case OVERBANK_DDSKETCH: OK(overbank_ddsketch_new(0.01, &sketch)); break;
    case OVERBANK_COCO: OK(overbank_coco_new(2048, 2, 16, &hasher, &sketch)); break;
    case OVERBANK_UNIVMON: OK(overbank_univmon_new(6, 2048, 5, 64, 16, &hasher, &sketch)); break;
    case OVERBANK_ELASTIC: OK(overbank_elastic_new(256, 4096, 1, 16, &hasher, &sketch)); break;
    case OVERBANK_SPACE_SAVING: OK(overbank_space_saving_new(KEYS, 16, &hasher, &sketch)); break;
    }
    return sketch;
}

static void feed(overbank_sketch *sketch, uint32_t kind) {
    if (kind == OVERBANK_LOCHER) {
        /* All of one source. */
        static overbank_bytes sources[KEYS];
        for (int i = 0; i < KEYS; i++) sources[i] = keys[0];
        OK(overbank_sketch_update_pairs(sketch, &hasher, sources, keys, KEYS));
    } else if (kind == OVERBANK_DDSKETCH) {
        OK(overbank_sketch_update_values(sketch, values, NULL, KEYS));
    } else if (kind <= OVERBANK_LOGLOG) {
        OK(overbank_sketch_update(sketch, hashes, weights, KEYS));
    } else {
        OK(overbank_sketch_update_keys(sketch, &hasher, keys, weights, KEYS));
    }
}

/* Two times the stream: key i weighs 2 (i + 1). */
static void ask(const overbank_sketch *sketch, uint32_t kind) {
    overbank_count count;
    overbank_real real;
    overbank_signed_count signed_count;
    uint64_t total = 0;
    const uint64_t all = (uint64_t)KEYS * (KEYS + 1);
    switch (kind) {
    case OVERBANK_COUNT_MIN:
    case OVERBANK_COCO:
    case OVERBANK_UNIVMON:
    case OVERBANK_ELASTIC:
    case OVERBANK_SPACE_SAVING:
        OK(overbank_sketch_counts(sketch, &hashes[KEYS - 1], 1, 0.99, &count));
        TRUE(count.lower <= 2 * KEYS && 2 * KEYS <= count.upper);
        OK(overbank_sketch_total_weight(sketch, &total));
        TRUE(total == all);
        break;
    case OVERBANK_COUNT_SKETCH:
        OK(overbank_sketch_signed_counts(sketch, &hashes[KEYS - 1], 1, 0.99, &signed_count));
        TRUE(signed_count.lower <= 2 * KEYS && 2 * KEYS <= signed_count.upper);
        break;
    case OVERBANK_LOCHER:
        OK(overbank_sketch_items(sketch, &hashes[0], 1, 0.99, &real));
        TRUE(real.estimate > 0.5 * KEYS && real.estimate < 2.0 * KEYS);
        break;
    case OVERBANK_DDSKETCH:
        OK(overbank_sketch_quantile(sketch, 0.5, &real));
        TRUE(fabs(real.estimate - KEYS / 2.0) < 0.02 * KEYS);
        break;
    }
    if (kind == OVERBANK_HYPERLOGLOG || kind == OVERBANK_LOGLOG || kind == OVERBANK_UNIVMON || kind == OVERBANK_ELASTIC) {
        OK(overbank_sketch_distinct(sketch, 4.0, &real));
        TRUE(real.lower <= KEYS && KEYS <= real.upper);
    }
    if (kind == OVERBANK_UNIVMON || kind == OVERBANK_ELASTIC) {
        OK(overbank_sketch_entropy(sketch, 3.0, &real));
        TRUE(real.estimate > 7.0 && real.estimate < 10.0);
    }
    if (kind >= OVERBANK_COCO) {
        overbank_heavy heavy[3];
        size_t found = 0;
        OK(overbank_sketch_top(sketch, 0.99, heavy, 3, &found));
        TRUE(found == 3 && heavy[0].key_len == LEN && !heavy[0].truncated);
        TRUE(heavy[0].count.estimate >= heavy[2].count.estimate);
    }
}

int main(void) {
    for (int i = 0; i < KEYS; i++) {
        uint64_t number = (uint64_t)i * UINT64_C(0x9e3779b97f4a7c15);
        memcpy(texts[i], &number, LEN);
        keys[i] = (overbank_bytes){texts[i], LEN};
        weights[i] = (uint64_t)i + 1;
        values[i] = i + 1;
    }
    OK(overbank_hash_keys(&hasher, keys, KEYS, hashes));
    for (uint32_t kind = OVERBANK_COUNT_MIN; kind <= OVERBANK_SPACE_SAVING; kind++) {
        overbank_sketch *one = make(kind), *other = make(kind), *copy = NULL, *read = NULL;
        uint32_t found = 0;
        OK(overbank_sketch_kind(one, &found));
        TRUE(found == kind);
        feed(one, kind);
        feed(other, kind);
        OK(overbank_sketch_merge(one, other));
        ask(one, kind);
        OK(overbank_sketch_clone(one, &copy));
        ask(copy, kind);

        overbank_buffer *buffer = NULL, *again = NULL;
        overbank_bytes bytes, same;
        OK(overbank_sketch_to_bytes(copy, &buffer));
        OK(overbank_buffer_bytes(buffer, &bytes));
        OK(overbank_sketch_from_bytes(kind, bytes.data, bytes.len, &read));
        ask(read, kind);
        OK(overbank_sketch_to_bytes(read, &again));
        OK(overbank_buffer_bytes(again, &same));
        TRUE(same.len == bytes.len && memcmp(same.data, bytes.data, same.len) == 0);

        /* Cut off anywhere, of another kind, and with a bit turned: refused, or another sketch; never a crash. */
        overbank_sketch *none = (overbank_sketch *)1;
        for (size_t len = 0; len < bytes.len; len += 1 + bytes.len / 97) {
            STATUS(OVERBANK_CORRUPT, overbank_sketch_from_bytes(kind, bytes.data, len, &none));
            TRUE(none == NULL);
        }
        uint32_t wrong = kind == OVERBANK_COUNT_MIN ? OVERBANK_COCO : OVERBANK_COUNT_MIN;
        TRUE(overbank_sketch_from_bytes(wrong, bytes.data, bytes.len, &none) != OVERBANK_OK && none == NULL);
        uint8_t *turned = malloc(bytes.len);
        for (size_t at = 0; at < bytes.len; at += 1 + bytes.len / 97) {
            memcpy(turned, bytes.data, bytes.len);
            turned[at] ^= 0x10;
            if (overbank_sketch_from_bytes(kind, turned, bytes.len, &none) == OVERBANK_OK) OK(overbank_sketch_free(none));
        }
        free(turned);
        OK(overbank_buffer_free(buffer));
        OK(overbank_buffer_free(again));
        OK(overbank_sketch_free(one));
        OK(overbank_sketch_free(other));
        OK(overbank_sketch_free(copy));
        OK(overbank_sketch_free(read));
    }
    return 0;
}
