/* Two threads that receive packets, and a third that polls and reports: the heaviest flows, with bounds. */
#include "overbank.h"
#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

enum { WORKERS = 2, BURST = 32, BURSTS = 625 };

static overbank_hasher hasher = {.seed_low = 1, .kind = OVERBANK_HASH_XXH3};
static atomic_int running = WORKERS;
static atomic_int failures;

static void *receive(void *worker) {
    for (uint32_t burst = 0; burst < BURSTS; burst++) {
        /* What a network card would give. */
        overbank_packet packets[BURST];
        memset(packets, 0, sizeof packets);
        for (uint32_t i = 0; i < BURST; i++) {
            uint32_t flow = i < BURST / 2 ? 7 : burst * BURST + i;
            memcpy(packets[i].key, &flow, sizeof flow);
            packets[i].key_len = sizeof flow;
            packets[i].weight = 1;
            if (overbank_hash_fixed(&hasher, packets[i].key, sizeof flow, 1, &packets[i].hash)) failures++;
        }
        if (overbank_worker_insert(worker, packets, BURST)) failures++;
    }
    running--;
    return NULL;
}

int main(void) {
    overbank_monitor_options options = {.kind = OVERBANK_COUNT_MIN, .workers = WORKERS, .hasher = hasher};
    overbank_monitor *monitor = NULL;
    overbank_aggregator *aggregator = NULL;
    overbank_reader *reader = NULL;
    overbank_worker *workers[WORKERS] = {NULL, NULL};
    pthread_t threads[WORKERS];
    if (overbank_monitor_start(&options, &monitor) || overbank_monitor_aggregator(monitor, &aggregator) ||
        overbank_monitor_reader(monitor, &reader)) {
        fprintf(stderr, "%s\n", overbank_last_error());
        return 1;
    }
    for (uint32_t i = 0; i < WORKERS; i++) {
        if (overbank_monitor_worker(monitor, i, &workers[i]) || pthread_create(&threads[i], NULL, receive, workers[i])) return 1;
    }
    do {
        if (overbank_aggregator_poll(aggregator, NULL)) return 1;
    } while (running > 0);
    for (int i = 0; i < WORKERS; i++) pthread_join(threads[i], NULL);
    if (overbank_aggregator_poll(aggregator, NULL)) return 1;

    overbank_monitor_state state;
    overbank_flow flows[3];
    size_t found = 0;
    if (overbank_reader_state(reader, &state) || overbank_reader_flows(reader, 0, 0, 0.99, flows, 3, &found)) return 1;
    printf("packets %" PRIu64 "\n", state.total_weight);
    for (size_t i = 0; i < found; i++) {
        uint32_t flow;
        memcpy(&flow, flows[i].key, sizeof flow);
        printf("flow %" PRIu32 ": %" PRIu64 ", %" PRIu64 " at least\n", flow, flows[i].size.estimate, flows[i].size.lower);
    }
    for (int i = 0; i < WORKERS; i++) overbank_worker_free(workers[i]);
    overbank_aggregator_free(aggregator);
    overbank_reader_free(reader);
    overbank_monitor_free(monitor);
    return failures != 0;
}
