/* A filter, counts, a dictionary and groups in one store: committed, and asked again after it was opened anew. */
#include "overbank.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void must(int32_t status) {
    if (status != OVERBANK_OK) {
        fprintf(stderr, "%d: %s\n", (int)status, overbank_last_error());
        exit(1);
    }
}

static overbank_bytes bytes(const char *text) {
    overbank_bytes all = {(const uint8_t *)text, strlen(text)};
    return all;
}

static overbank_groups *groups_of(overbank_store *store) {
    static const uint32_t types[] = {OVERBANK_UNSIGNED};
    static const overbank_function functions[] = {{OVERBANK_COUNT_ROWS, 0, 0}, {OVERBANK_SUM, 0, 0}, {OVERBANK_MEAN, 0, 0}};
    overbank_groups *groups = NULL;
    must(overbank_groups_new(store, "sales", types, 1, functions, 3, 8 << 20, NULL, &groups));
    return groups;
}

int main(void) {
    overbank_store_options options = {.memory_bytes = 128 << 20, .threads = 1};
    overbank_store *store = NULL;
    overbank_filter *seen = NULL;
    overbank_frequency *clicks = NULL;
    overbank_dictionary *capitals = NULL;
    overbank_hasher hasher;
    must(overbank_store_open("summaries", &options, &store));
    must(overbank_store_hasher(store, &hasher));
    must(overbank_filter_open(store, "seen", 100000, 1e-6, 16 << 20, &seen));
    must(overbank_frequency_open(store, "clicks", 1e-4, 0.01, 8 << 20, &clicks));
    must(overbank_dictionary_open(store, "capitals", 16 << 20, &capitals));
    overbank_groups *sales = groups_of(store);

    overbank_bytes keys[] = {bytes("France"), bytes("Japan"), bytes("France")};
    overbank_bytes cities[] = {bytes("Paris"), bytes("Tokyo")};
    overbank_hash hashes[3];
    uint8_t is_new[3];
    must(overbank_hash_keys(&hasher, keys, 3, hashes));
    must(overbank_filter_insert_if_absent(seen, hashes, 3, is_new));
    printf("new: %d %d %d\n", is_new[0], is_new[1], is_new[2]);
    must(overbank_frequency_update(clicks, hashes, NULL, 3));
    must(overbank_dictionary_insert(capitals, keys, cities, 2));
    overbank_value items[3];
    memset(items, 0, sizeof items);
    for (uint64_t i = 0; i < 3; i++) {
        items[i].kind = OVERBANK_UNSIGNED;
        items[i].unsigned_value = 10 * (i + 1);
    }
    must(overbank_groups_insert(sales, keys, items, 3));
    must(overbank_store_commit(store, (const uint8_t *)"line 3", 6));
    must(overbank_filter_free(seen));
    must(overbank_frequency_free(clicks));
    must(overbank_dictionary_free(capitals));
    must(overbank_groups_free(sales));
    must(overbank_store_free(store));

    /* Another day. */
    must(overbank_store_open("summaries", &options, &store));
    overbank_buffer *position = NULL;
    overbank_bytes at, city;
    must(overbank_store_position(store, &position));
    must(overbank_buffer_bytes(position, &at));
    printf("goes on at %.*s\n", (int)at.len, (const char *)at.data);
    must(overbank_buffer_free(position));

    must(overbank_dictionary_open(store, "capitals", 16 << 20, &capitals));
    overbank_values *found = NULL;
    must(overbank_dictionary_get(capitals, keys, 2, &found));
    must(overbank_values_get(found, 1, &city));
    printf("capital of Japan: %.*s\n", (int)city.len, (const char *)city.data);
    must(overbank_values_free(found));

    overbank_count count;
    must(overbank_frequency_open(store, "clicks", 1e-4, 0.01, 8 << 20, &clicks));
    must(overbank_frequency_counts(clicks, hashes, 1, 0.99, &count));
    printf("France: %" PRIu64 " clicks\n", count.estimate);

    sales = groups_of(store);
    must(overbank_groups_finalize(sales));
    overbank_group *group = NULL;
    overbank_value rows, sum, mean;
    must(overbank_groups_get(sales, keys[0].data, keys[0].len, &group));
    must(overbank_group_value(group, 0, &rows));
    must(overbank_group_value(group, 1, &sum));
    must(overbank_group_value(group, 2, &mean));
    printf("France: %" PRIu64 " sales of %" PRIu64 ", %.1f on average\n", rows.unsigned_value, sum.unsigned_value, mean.float_value);
    if (count.estimate != 2 || rows.unsigned_value != 2 || sum.unsigned_value != 40 || mean.float_value != 20.0) return 1;
    must(overbank_group_free(group));

    must(overbank_groups_scan(sales, &group));
    int32_t status;
    int groups = 0;
    while ((status = overbank_group_next(group)) == OVERBANK_OK) groups++;
    if (status != OVERBANK_NOT_FOUND || groups != 2) return 1;
    must(overbank_group_free(group));
    must(overbank_groups_free(sales));
    must(overbank_frequency_free(clicks));
    must(overbank_dictionary_free(capitals));
    must(overbank_store_free(store));
    return 0;
}
