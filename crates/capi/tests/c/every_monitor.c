/* Each kind of monitor: three workers in turn, several epochs, against counts that are known. */
#include "check.h"
#include <math.h>
#include <string.h>

enum { FLOWS = 100, ROUNDS = 60, WORKERS = 3 };

int main(void) {
    static const uint32_t kinds[] = {OVERBANK_COUNT_MIN, OVERBANK_COUNT_SKETCH, OVERBANK_HYPERLOGLOG, OVERBANK_LOGLOG,
                                     OVERBANK_DDSKETCH,  OVERBANK_COCO,         OVERBANK_UNIVMON,     OVERBANK_ELASTIC};
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
        overbank_monitor_options options = {.kind = kinds[k], .workers = WORKERS, .hasher = {.seed_low = 3, .kind = OVERBANK_HASH_XXH3}};
        if (kinds[k] != OVERBANK_HYPERLOGLOG && kinds[k] != OVERBANK_LOGLOG) options.columns = 4096;
        overbank_monitor *monitor;
        overbank_worker *workers[WORKERS];
        overbank_aggregator *aggregator;
        overbank_reader *reader;
        OK(overbank_monitor_start(&options, &monitor));
        for (uint32_t w = 0; w < WORKERS; w++) OK(overbank_monitor_worker(monitor, w, &workers[w]));
        OK(overbank_monitor_aggregator(monitor, &aggregator));
        OK(overbank_monitor_reader(monitor, &reader));
        OK(overbank_monitor_free(monitor));

        overbank_packet packets[FLOWS];
        memset(packets, 0, sizeof packets);
        for (uint8_t f = 0; f < FLOWS; f++) {
            packets[f].key_len = 13;
            packets[f].key[0] = f;
            packets[f].weight = 1 + f % 7;
            OK(overbank_hash_fixed(&options.hasher, packets[f].key, 13, 1, &packets[f].hash));
        }
        uint64_t epoch_of[2] = {0, 1}, begun = 0;
        for (int epoch = 0; epoch < 2; epoch++) {
            for (int round = 0; round < ROUNDS; round++) {
                /* Round-robin: no flow stays with one worker. */
                for (int w = 0; w < WORKERS; w++) {
                    size_t first = (size_t)w * (FLOWS / WORKERS), last = w + 1 == WORKERS ? FLOWS : first + FLOWS / WORKERS;
                    OK(overbank_worker_insert(workers[(w + round) % WORKERS], &packets[first], last - first));
                }
                OK(overbank_aggregator_poll(aggregator, NULL));
            }
            if (epoch == 0) {
                OK(overbank_aggregator_begin_epoch(aggregator, &begun));
                TRUE(begun == 1);
                STATUS(OVERBANK_BUSY, overbank_aggregator_begin_epoch(aggregator, &begun));
            }
        }
        for (int i = 0; i < 100; i++) {
            for (int w = 0; w < WORKERS; w++) OK(overbank_worker_publish(workers[w]));
            OK(overbank_aggregator_poll(aggregator, NULL));
        }
        overbank_monitor_state state;
        OK(overbank_reader_state(reader, &state));
        TRUE(state.epoch == 1 && state.workers == WORKERS);
        overbank_worker_stats stats[WORKERS];
        OK(overbank_reader_worker_stats(reader, stats, WORKERS));
        TRUE(stats[0].elements + stats[1].elements + stats[2].elements == 2 * FLOWS * ROUNDS);
        STATUS(OVERBANK_INVALID, overbank_reader_worker_stats(reader, stats, WORKERS - 1));

        for (int e = 0; e < 2; e++) {
            overbank_sketch *sketch;
            OK(overbank_reader_sketch(reader, epoch_of[e], epoch_of[e], &sketch));
            uint32_t kind = 0;
            OK(overbank_sketch_kind(sketch, &kind));
            TRUE(kind == kinds[k]);
            for (int f = 0; f < FLOWS; f++) {
                const uint64_t truth = packets[f].weight * ROUNDS;
                overbank_count count;
                overbank_signed_count signed_count;
                if (kind == OVERBANK_COUNT_MIN || kind == OVERBANK_COCO || kind == OVERBANK_ELASTIC) {
                    OK(overbank_reader_counts(reader, epoch_of[e], epoch_of[e], &packets[f].hash, 1, 0.99, &count));
                    TRUE(kind != OVERBANK_COUNT_MIN || (count.estimate == truth && count.upper == truth));
                    TRUE(count.lower <= truth && truth <= count.upper);
                } else {
                    TRUE(overbank_reader_counts(reader, 0, 0, &packets[f].hash, 1, 0.99, &count) == OVERBANK_WRONG_KIND);
                }
                if (kind == OVERBANK_COUNT_SKETCH) {
                    OK(overbank_sketch_signed_counts(sketch, &packets[f].hash, 1, 0.99, &signed_count));
                    TRUE(signed_count.estimate == (int64_t)truth);
                }
            }
            overbank_real real;
            if (kind == OVERBANK_HYPERLOGLOG || kind == OVERBANK_LOGLOG || kind == OVERBANK_UNIVMON) {
                OK(overbank_sketch_distinct(sketch, 4.0, &real));
                TRUE(kind == OVERBANK_LOGLOG || fabs(real.estimate - FLOWS) < 10);
            }
            if (kind == OVERBANK_DDSKETCH) {
                OK(overbank_sketch_quantile(sketch, 0.5, &real));
                TRUE(fabs(real.estimate - 4.0) < 0.05);
            }
            overbank_flow flows[10];
            size_t found = 0;
            if (kind >= OVERBANK_COCO || kind <= OVERBANK_COUNT_SKETCH) {
                OK(overbank_reader_flows(reader, epoch_of[e], epoch_of[e], 0.99, flows, 10, &found));
                TRUE(found == 10 && flows[0].key_len == 13);
                /* Of any key: Coco is right on average. */
                TRUE(kind == OVERBANK_COCO || flows[0].size.estimate == 7 * ROUNDS);
                TRUE(kind == OVERBANK_COCO || flows[0].key[0] % 7 == 6);
            } else {
                STATUS(OVERBANK_WRONG_KIND, overbank_reader_flows(reader, 0, 0, 0.99, flows, 10, &found));
            }
            OK(overbank_sketch_free(sketch));
        }
        overbank_sketch *none;
        STATUS(OVERBANK_NOT_FOUND, overbank_reader_sketch(reader, 5, 5, &none));
        STATUS(OVERBANK_NOT_FOUND, overbank_reader_sketch(reader, 1, 0, &none));
        for (int w = 0; w < WORKERS; w++) {
            uint8_t done = 0;
            while (!done) {
                OK(overbank_worker_flush(workers[w], &done));
                OK(overbank_aggregator_poll(aggregator, NULL));
            }
            OK(overbank_worker_free(workers[w]));
        }
        OK(overbank_aggregator_free(aggregator));
        OK(overbank_reader_state(reader, &state));
        OK(overbank_reader_free(reader));
    }
    return 0;
}
