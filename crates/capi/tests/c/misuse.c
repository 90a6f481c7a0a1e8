/* What no program should do, and each time an answer. */
#include "check.h"
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

static overbank_hasher hasher = {.seed_low = 1, .kind = OVERBANK_HASH_XXH3};

static void null_everywhere(void) {
    overbank_hash hash = {1, 2};
    overbank_count count;
    overbank_real real;
    overbank_sketch *sketch = NULL;
    overbank_bytes bytes;
    uint32_t kind;
    STATUS(OVERBANK_NULL_POINTER, overbank_count_min_new(16, 2, NULL, &sketch));
    TRUE(sketch == NULL);
    STATUS(OVERBANK_NULL_POINTER, overbank_count_min_new(16, 2, &hasher, NULL));
    STATUS(OVERBANK_NULL_POINTER, overbank_sketch_update(NULL, &hash, NULL, 1));
    STATUS(OVERBANK_NULL_POINTER, overbank_sketch_kind(NULL, &kind));
    STATUS(OVERBANK_NULL_POINTER, overbank_sketch_from_bytes(OVERBANK_COUNT_MIN, NULL, 10, &sketch));
    STATUS(OVERBANK_CORRUPT, overbank_sketch_from_bytes(OVERBANK_COUNT_MIN, NULL, 0, &sketch));
    STATUS(OVERBANK_NULL_POINTER, overbank_buffer_bytes(NULL, &bytes));
    STATUS(OVERBANK_NULL_POINTER, overbank_store_open(NULL, NULL, NULL));
    STATUS(OVERBANK_NULL_POINTER, overbank_filter_insert(NULL, &hash, 1));
    STATUS(OVERBANK_NULL_POINTER, overbank_frequency_update(NULL, &hash, NULL, 1));
    STATUS(OVERBANK_NULL_POINTER, overbank_worker_insert(NULL, NULL, 0));
    STATUS(OVERBANK_NULL_POINTER, overbank_aggregator_poll(NULL, NULL));
    STATUS(OVERBANK_NULL_POINTER, overbank_group_next(NULL));
    STATUS(OVERBANK_NULL_POINTER, overbank_monitor_start(NULL, NULL));

    OK(overbank_count_min_new(16, 2, &hasher, &sketch));
    STATUS(OVERBANK_NULL_POINTER, overbank_sketch_update(sketch, NULL, NULL, 1));
    OK(overbank_sketch_update(sketch, NULL, NULL, 0));
    STATUS(OVERBANK_NULL_POINTER, overbank_sketch_counts(sketch, &hash, 1, 0.9, NULL));
    STATUS(OVERBANK_NULL_POINTER, overbank_sketch_kind(sketch, NULL));
    STATUS(OVERBANK_INVALID, overbank_sketch_update(sketch, &hash, NULL, SIZE_MAX));
    STATUS(OVERBANK_INVALID, overbank_sketch_update(sketch, (overbank_hash *)((char *)&hash + 1), NULL, 1));
    STATUS(OVERBANK_INVALID, overbank_sketch_counts(sketch, &hash, 1, 1.5, &count));
    STATUS(OVERBANK_WRONG_KIND, overbank_sketch_quantile(sketch, 0.5, &real));
    STATUS(OVERBANK_WRONG_KIND, overbank_sketch_update_values(sketch, &real.lower, NULL, 1));
    STATUS(OVERBANK_INVALID, overbank_sketch_merge(sketch, sketch));
    OK(overbank_sketch_free(sketch));

    OK(overbank_sketch_free(NULL));
    OK(overbank_buffer_free(NULL));
    OK(overbank_store_free(NULL));
    OK(overbank_worker_free(NULL));
}

static void out_of_range(void) {
    overbank_sketch *sketch = NULL, *other = NULL;
    overbank_hasher odd = {.kind = 99}, another = {.seed_low = 2, .kind = OVERBANK_HASH_XXH3};
    overbank_hash hash;
    overbank_bytes key = {(const uint8_t *)"key", 3};
    STATUS(OVERBANK_INVALID, overbank_hash_keys(&odd, &key, 1, &hash));
    TRUE(strstr(overbank_last_error(), "99") != NULL);
    STATUS(OVERBANK_INVALID, overbank_hash_fixed(&hasher, key.data, SIZE_MAX / 2, 3, &hash));
    STATUS(OVERBANK_INVALID, overbank_count_min_new(0, 2, &hasher, &sketch));
    STATUS(OVERBANK_INVALID, overbank_hyperloglog_new(99, &hasher, &sketch));
    STATUS(OVERBANK_INVALID, overbank_ddsketch_new(0.0, &sketch));
    /* More than memory: answered, not the end of the process. */
    TRUE(overbank_space_saving_new(SIZE_MAX, SIZE_MAX, &hasher, &sketch) != OVERBANK_OK && sketch == NULL);
    TRUE(overbank_locher_new(UINT32_MAX, 16, SIZE_MAX, SIZE_MAX, &hasher, &sketch) != OVERBANK_OK && sketch == NULL);
    TRUE(overbank_coco_new(UINT32_MAX, 16, SIZE_MAX, &hasher, &sketch) != OVERBANK_OK && sketch == NULL);
    TRUE(overbank_univmon_new(UINT32_MAX, UINT32_MAX, UINT32_MAX, SIZE_MAX, SIZE_MAX, &hasher, &sketch) != OVERBANK_OK);
    TRUE(overbank_elastic_new(UINT32_MAX, UINT32_MAX, UINT32_MAX, SIZE_MAX, &hasher, &sketch) != OVERBANK_OK);
    STATUS(OVERBANK_INVALID, overbank_sketch_from_bytes(77, key.data, key.len, &sketch));

    OK(overbank_hyperloglog_new(12, &hasher, &sketch));
    OK(overbank_hyperloglog_new(12, &another, &other));
    STATUS(OVERBANK_INCOMPATIBLE, overbank_sketch_merge(sketch, other));
    STATUS(OVERBANK_INCOMPATIBLE, overbank_sketch_update_keys(sketch, &another, &key, NULL, 1));
    OK(overbank_sketch_free(other));
    OK(overbank_count_sketch_new(64, 3, &hasher, &other));
    STATUS(OVERBANK_WRONG_KIND, overbank_sketch_merge(sketch, other));
    uint64_t weight = UINT64_MAX;
    STATUS(OVERBANK_INVALID, overbank_sketch_update(other, &hash, &weight, 1));
    OK(overbank_sketch_free(other));
    OK(overbank_sketch_free(sketch));
}

static void another_kind(void) {
    overbank_sketch *sketch = NULL;
    overbank_store *store = NULL;
    overbank_filter *filter = NULL;
    overbank_frequency *counts = NULL;
    overbank_buffer *buffer = NULL;
    overbank_hash hash = {1, 2};
    overbank_store_options options = {.memory_bytes = 64 << 20};
    overbank_bytes bytes;
    OK(overbank_hyperloglog_new(12, &hasher, &sketch));
    STATUS(OVERBANK_WRONG_KIND, overbank_filter_insert((const overbank_filter *)sketch, &hash, 1));
    STATUS(OVERBANK_WRONG_KIND, overbank_buffer_bytes((const overbank_buffer *)sketch, &bytes));
    STATUS(OVERBANK_WRONG_KIND, overbank_worker_free((overbank_worker *)sketch));
    STATUS(OVERBANK_WRONG_KIND, overbank_sketch_kind((overbank_sketch *)((char *)sketch + 1), NULL));
    OK(overbank_sketch_to_bytes(sketch, &buffer));
    STATUS(OVERBANK_WRONG_KIND, overbank_sketch_free((overbank_sketch *)buffer));
    OK(overbank_buffer_free(buffer));
    OK(overbank_sketch_free(sketch));

    OK(overbank_store_in_memory(&options, &store));
    OK(overbank_filter_open(store, "keys", 1000, 1e-3, 0, &filter));
    STATUS(OVERBANK_WRONG_KIND, overbank_frequency_open(store, "keys", 1e-3, 0.01, 4 << 20, &counts));
    STATUS(OVERBANK_INVALID, overbank_frequency_open(store, "more", 0.0, 0.01, 4 << 20, &counts));
    STATUS(OVERBANK_NULL_POINTER, overbank_frequency_open(store, NULL, 1e-3, 0.01, 4 << 20, &counts));
    STATUS(OVERBANK_INVALID, overbank_frequency_open(store, "\xff\xfe", 1e-3, 0.01, 4 << 20, &counts));
    TRUE(counts == NULL);
    /* Closed, and its store freed first: handles say so, and are freed as ever. */
    STATUS(OVERBANK_INVALID, overbank_store_close(store, "keys"));
    OK(overbank_store_commit(store, NULL, 0));
    OK(overbank_store_close(store, "keys"));
    STATUS(OVERBANK_CLOSED, overbank_filter_insert(filter, &hash, 1));
    OK(overbank_store_free(store));
    STATUS(OVERBANK_CLOSED, overbank_filter_insert(filter, &hash, 1));
    OK(overbank_filter_free(filter));
}

static void groups(void) {
    static const uint32_t types[] = {OVERBANK_UNSIGNED, OVERBANK_BYTES}, odd[] = {OVERBANK_ABOUT};
    overbank_function functions[] = {{OVERBANK_SUM, 0, 0}, {OVERBANK_MAX, 1, 0}}, wrong = {OVERBANK_SUM, 7, 0}, unknown = {99, 0, 0};
    overbank_function nan = {OVERBANK_QUANTILE, 0, 7.0};
    overbank_groups *groups = NULL;
    overbank_group *group = NULL;
    overbank_value items[2], value;
    overbank_bytes key = {(const uint8_t *)"key", 3}, found;
    STATUS(OVERBANK_INVALID, overbank_groups_new(NULL, NULL, odd, 1, functions, 1, 0, NULL, &groups));
    STATUS(OVERBANK_INVALID, overbank_groups_new(NULL, NULL, types, 2, &wrong, 1, 0, NULL, &groups));
    STATUS(OVERBANK_INVALID, overbank_groups_new(NULL, NULL, types, 2, &unknown, 1, 0, NULL, &groups));
    STATUS(OVERBANK_INVALID, overbank_groups_new(NULL, NULL, types, 2, &nan, 1, 0, NULL, &groups));
    OK(overbank_groups_new(NULL, NULL, types, 2, functions, 2, 8 << 20, NULL, &groups));
    memset(items, 0, sizeof items);
    items[0].kind = OVERBANK_UNSIGNED;
    items[0].unsigned_value = UINT64_MAX;
    items[1].kind = OVERBANK_FLOAT;
    STATUS(OVERBANK_INVALID, overbank_groups_insert(groups, &key, items, 1));
    items[1].kind = OVERBANK_BYTES;
    items[1].bytes.len = 5;
    STATUS(OVERBANK_NULL_POINTER, overbank_groups_insert(groups, &key, items, 1));
    items[1].bytes = (overbank_bytes){(const uint8_t *)"a\0b", 3};
    STATUS(OVERBANK_NULL_POINTER, overbank_groups_insert(groups, &key, NULL, 1));
    STATUS(OVERBANK_INVALID, overbank_groups_insert(groups, &key, items, SIZE_MAX / 2));
    OK(overbank_groups_insert(groups, &key, items, 1));
    uint64_t count = 0;
    OK(overbank_groups_count(groups, &count));
    TRUE(count == 1);
    STATUS(OVERBANK_NOT_FOUND, overbank_groups_get(groups, (const uint8_t *)"no", 2, &group));
    TRUE(group == NULL);
    OK(overbank_groups_get(groups, key.data, key.len, &group));
    STATUS(OVERBANK_WRONG_KIND, overbank_group_next(group));
    STATUS(OVERBANK_INVALID, overbank_group_value(group, 2, &value));
    OK(overbank_group_value(group, 0, &value));
    TRUE(value.kind == OVERBANK_UNSIGNED && value.unsigned_value == UINT64_MAX);
    OK(overbank_group_value(group, 1, &value));
    TRUE(value.kind == OVERBANK_BYTES && value.bytes.len == 3 && memcmp(value.bytes.data, "a\0b", 3) == 0);
    OK(overbank_group_free(group));
    OK(overbank_groups_scan(groups, &group));
    STATUS(OVERBANK_NOT_FOUND, overbank_group_key(group, &found));
    OK(overbank_group_next(group));
    OK(overbank_group_key(group, &found));
    TRUE(found.len == 3);
    STATUS(OVERBANK_NOT_FOUND, overbank_group_next(group));
    STATUS(OVERBANK_NOT_FOUND, overbank_group_value(group, 0, &value));
    OK(overbank_group_free(group));
    /* One more: the sum does not fit a u64, and says so. */
    OK(overbank_groups_insert(groups, &key, items, 1));
    TRUE(overbank_groups_get(groups, key.data, key.len, &group) != OVERBANK_OK && group == NULL);
    OK(overbank_groups_free(groups));
}

static overbank_worker *contested;
static atomic_int others_go, busy, inserted, odd_answers;

static void *insert_often(void *packet) {
    while (!others_go) {
    }
    for (int i = 0; i < 2000; i++) {
        int32_t status = overbank_worker_insert(contested, packet, 1);
        if (status == OVERBANK_OK) inserted++;
        else if (status == OVERBANK_BUSY) busy++;
        else odd_answers++;
    }
    return NULL;
}

static void monitors(void) {
    overbank_monitor_options options = {.kind = OVERBANK_COUNT_MIN, .workers = 2, .columns = 1024, .hasher = hasher};
    overbank_monitor *monitor = NULL;
    overbank_worker *worker = NULL;
    overbank_aggregator *aggregator = NULL, *second = NULL;
    overbank_reader *reader = NULL;
    overbank_packet packet;
    memset(&packet, 0, sizeof packet);
    packet.weight = 1;
    overbank_monitor_options bad = options;
    bad.kind = OVERBANK_SPACE_SAVING;
    STATUS(OVERBANK_INVALID, overbank_monitor_start(&bad, &monitor));
    bad = options, bad.rows = 9;
    STATUS(OVERBANK_INVALID, overbank_monitor_start(&bad, &monitor));
    bad = options, bad.columns = UINT32_MAX;
    STATUS(OVERBANK_INVALID, overbank_monitor_start(&bad, &monitor));
    bad = options, bad.workers = UINT32_MAX;
    STATUS(OVERBANK_INVALID, overbank_monitor_start(&bad, &monitor));
    bad = options, bad.cpu_share = 2.0;
    STATUS(OVERBANK_INVALID, overbank_monitor_start(&bad, &monitor));
    OK(overbank_monitor_start(&options, &monitor));
    STATUS(OVERBANK_INVALID, overbank_monitor_worker(monitor, 2, &worker));
    OK(overbank_monitor_worker(monitor, 0, &worker));
    OK(overbank_monitor_aggregator(monitor, &aggregator));
    STATUS(OVERBANK_INVALID, overbank_monitor_aggregator(monitor, &second));
    OK(overbank_monitor_reader(monitor, &reader));
    STATUS(OVERBANK_INVALID, overbank_monitor_worker(monitor, 0, &contested));
    OK(overbank_monitor_free(monitor));

    packet.key_len = OVERBANK_FLOW_BYTES + 1;
    STATUS(OVERBANK_INVALID, overbank_worker_insert(worker, &packet, 1));
    packet.key_len = OVERBANK_FLOW_BYTES;
    packet.weight = UINT64_MAX;
    OK(overbank_worker_insert(worker, &packet, 1));
    OK(overbank_worker_insert(worker, &packet, 1));
    overbank_count count;
    OK(overbank_reader_counts(reader, 0, 0, &packet.hash, 1, 0.99, &count));
    TRUE(count.estimate == UINT64_MAX && count.upper == UINT64_MAX);

    /* One worker, two threads: each call counts or is refused, and none is lost. */
    packet.weight = 1;
    contested = worker;
    pthread_t threads[2];
    overbank_worker_stats before[2], after[2];
    OK(overbank_reader_worker_stats(reader, before, 2));
    for (int i = 0; i < 2; i++) TRUE(pthread_create(&threads[i], NULL, insert_often, &packet) == 0);
    others_go = 1;
    for (int i = 0; i < 2; i++) pthread_join(threads[i], NULL);
    TRUE(odd_answers == 0 && inserted + busy == 4000);
    OK(overbank_reader_worker_stats(reader, after, 2));
    TRUE(after[0].elements - before[0].elements == (uint64_t)inserted);
    OK(overbank_worker_free(worker));
    OK(overbank_aggregator_free(aggregator));
    OK(overbank_reader_free(reader));
}

static void *fails_elsewhere(void *unused) {
    (void)unused;
    TRUE(overbank_last_error()[0] == 0);
    STATUS(OVERBANK_NULL_POINTER, overbank_sketch_kind(NULL, NULL));
    TRUE(overbank_last_error()[0] != 0);
    return NULL;
}

static void errors_are_a_thread_s_own(void) {
    pthread_t thread;
    overbank_sketch *sketch = NULL;
    STATUS(OVERBANK_INVALID, overbank_hyperloglog_new(99, &hasher, &sketch));
    TRUE(strstr(overbank_last_error(), "99") != NULL);
    TRUE(pthread_create(&thread, NULL, fails_elsewhere, NULL) == 0);
    pthread_join(thread, NULL);
    TRUE(strstr(overbank_last_error(), "99") != NULL);
    /* A call that succeeds leaves it. */
    OK(overbank_sketch_free(NULL));
    TRUE(strstr(overbank_last_error(), "99") != NULL);
}

int main(void) {
    TRUE(overbank_last_error()[0] == 0);
    null_everywhere();
    out_of_range();
    another_kind();
    groups();
    monitors();
    errors_are_a_thread_s_own();
    return 0;
}
