/*
 * Overbank: compact summaries of streams that outgrow RAM and one core.
 *
 * Every function that can fail returns OVERBANK_OK or another code of overbank_status, and overbank_last_error() then says why, in a
 * sentence, for this thread. Nothing is thrown or ends the process but where the system has no memory left.
 *
 * A handle is made by a function with a last parameter "out", which is NULL after a failure, and freed by its own ..._free, once; freeing
 * NULL is nothing. NULL, a handle of another kind and an argument out of its range are answered by a code; so are a handle that was freed,
 * as long as its memory is not used again, and one that another thread changes. An array of 0 elements may be NULL.
 *
 * Threads: stores, filters, frequencies, dictionaries, groups, monitors and readers may be used by any number at once; a sketch by any
 * number that ask, or one that changes it; workers, aggregators and groups that were asked for by one at a time. Another one meanwhile is
 * answered OVERBANK_BUSY.
 *
 * Written by cbindgen from crates/capi/src; do not edit.
 */

#ifndef OVERBANK_H
#define OVERBANK_H

#include <stddef.h>
#include <stdint.h>

/*
 XXH3-128: for files. With a seed below 2^64, it is what `XXH3_128bits_withSeed` of xxHash gives.
 */
#define OVERBANK_HASH_XXH3 1

/*
 SipHash-1-3 of 128 bits: for keys that others choose, such as those of a network.
 */
#define OVERBANK_HASH_SIPHASH13 2

/*
 Count-min with counters of 8 bytes: how often a key came, never too low.
 */
#define OVERBANK_COUNT_MIN 1

/*
 Count sketch: how often a key came, without bias; weights may be negative.
 */
#define OVERBANK_COUNT_SKETCH 2

/*
 HyperLogLog: how many different keys.
 */
#define OVERBANK_HYPERLOGLOG 3

/*
 LogLog: how many different keys.
 */
#define OVERBANK_LOGLOG 4

/*
 Locher's sketch: which sources have the most different items.
 */
#define OVERBANK_LOCHER 5

/*
 DDSketch: quantiles of a value.
 */
#define OVERBANK_DDSKETCH 6

/*
 CocoSketch: sizes of keys, and of any part of them, without bias.
 */
#define OVERBANK_COCO 7

/*
 UnivMon: any sum over the counts, such as L2 and entropy.
 */
#define OVERBANK_UNIVMON 8

/*
 Elastic sketch: heavy keys exactly, and how counts are distributed.
 */
#define OVERBANK_ELASTIC 9

/*
 Space-saving: which keys are heavy.
 */
#define OVERBANK_SPACE_SAVING 10

/*
 Bytes of a key in an `overbank_heavy`.
 */
#define OVERBANK_KEY_BYTES 64

/*
 Nothing: a NULL of SQL.
 */
#define OVERBANK_NULL 0

/*
 A `uint64_t`.
 */
#define OVERBANK_UNSIGNED 1

/*
 An `int64_t`.
 */
#define OVERBANK_SIGNED 2

/*
 A `double`.
 */
#define OVERBANK_FLOAT 3

/*
 Bytes.
 */
#define OVERBANK_BYTES 4

/*
 Of answers alone: a number within bounds.
 */
#define OVERBANK_ABOUT 5

/*
 How many rows there are.
 */
#define OVERBANK_COUNT_ROWS 1

/*
 How many items.
 */
#define OVERBANK_COUNT 2

/*
 The items' sum.
 */
#define OVERBANK_SUM 3

/*
 The least item.
 */
#define OVERBANK_MIN 4

/*
 The greatest item.
 */
#define OVERBANK_MAX 5

/*
 The items' mean.
 */
#define OVERBANK_MEAN 6

/*
 Their variance, as all there are.
 */
#define OVERBANK_VARIANCE 7

/*
 Their standard deviation, as all there are.
 */
#define OVERBANK_DEVIATION 8

/*
 The item of the row that was inserted first.
 */
#define OVERBANK_FIRST 9

/*
 The item of the row that was inserted last.
 */
#define OVERBANK_LAST 10

/*
 How many different items, about; `argument` is the binary logarithm of the number of registers.
 */
#define OVERBANK_DISTINCT_COUNT 11

/*
 The item of which a share of `argument` is less, within 1 %.
 */
#define OVERBANK_QUANTILE 12

/*
 The most bytes of a flow's key: a 5-tuple of IPv6 has 37.
 */
#define OVERBANK_FLOW_BYTES 39

/*
 What a function answers.
 */
enum overbank_status
#if defined(__cplusplus) || __STDC_VERSION__ >= 202311L
  : int32_t
#endif // defined(__cplusplus) || __STDC_VERSION__ >= 202311L
 {
  /*
   It was done.
   */
  OVERBANK_OK = 0,
  /*
   A pointer is NULL where something is needed.
   */
  OVERBANK_NULL_POINTER = 1,
  /*
   An argument is out of its range.
   */
  OVERBANK_INVALID = 2,
  /*
   A handle, or what a store or bytes hold, is of another kind.
   */
  OVERBANK_WRONG_KIND = 3,
  /*
   Another thread uses the handle, which takes one at a time.
   */
  OVERBANK_BUSY = 4,
  /*
   The handle was freed, or the structure closed.
   */
  OVERBANK_CLOSED = 5,
  /*
   An earlier call panicked in this handle, or a write of the store failed: free it.
   */
  OVERBANK_POISONED = 6,
  /*
   A defect of the library was met in this call; the handle is poisoned.
   */
  OVERBANK_PANICKED = 7,
  /*
   Bytes or files are damaged, or of another version.
   */
  OVERBANK_CORRUPT = 8,
  /*
   Two things differ in hash, seed or shape.
   */
  OVERBANK_INCOMPATIBLE = 9,
  /*
   There is no such thing; or there is no more.
   */
  OVERBANK_NOT_FOUND = 10,
  /*
   The device is full.
   */
  OVERBANK_NO_SPACE = 11,
  /*
   The memory, a budget or a capacity does not hold it.
   */
  OVERBANK_NO_MEMORY = 12,
  /*
   The system refused an operation on a file.
   */
  OVERBANK_IO = 13,
  /*
   The store is open for writing elsewhere.
   */
  OVERBANK_LOCKED = 14,
  /*
   The store is open read-only.
   */
  OVERBANK_READ_ONLY = 15,
  /*
   The handle was opened by another process, of which this is a fork.
   */
  OVERBANK_FORKED = 16,
  /*
   Another error of the library.
   */
  OVERBANK_OTHER = 17,
};
#ifndef __cplusplus
#if __STDC_VERSION__ >= 202311L
typedef enum overbank_status overbank_status;
#else
typedef int32_t overbank_status;
#endif // __STDC_VERSION__ >= 202311L
#endif // __cplusplus

/*
 Takes what workers send: of one thread at a time.
 */
typedef struct overbank_aggregator overbank_aggregator;

/*
 Bytes of the library's.
 */
typedef struct overbank_buffer overbank_buffer;

/*
 A dictionary of a store.
 */
typedef struct overbank_dictionary overbank_dictionary;

/*
 A filter of a store.
 */
typedef struct overbank_filter overbank_filter;

/*
 Counts of a store.
 */
typedef struct overbank_frequency overbank_frequency;

/*
 A group that was asked for, or the one at which a scan is.
 */
typedef struct overbank_group overbank_group;

/*
 Groups: rows in, an answer a key out.
 */
typedef struct overbank_groups overbank_groups;

/*
 Workers that nobody has taken yet, the aggregator and the reader.
 */
typedef struct overbank_monitor overbank_monitor;

/*
 Answers: of any number of threads.
 */
typedef struct overbank_reader overbank_reader;

/*
 A sketch of any kind.
 */
typedef struct overbank_sketch overbank_sketch;

/*
 A directory of structures that commit as one.
 */
typedef struct overbank_store overbank_store;

/*
 What a lookup of several keys found.
 */
typedef struct overbank_values overbank_values;

/*
 Counts packets: of one thread at a time.
 */
typedef struct overbank_worker overbank_worker;

/*
 Bytes of the caller's, or of a handle's.
 */
typedef struct {
  /*
   The first; may be NULL if there are none.
   */
  const uint8_t *data;
  /*
   How many.
   */
  size_t len;
} overbank_bytes;

/*
 How keys are hashed: a plain value. What is to be merged or compared has the same one.
 */
typedef struct {
  /*
   The seed's lower half.
   */
  uint64_t seed_low;
  /*
   The seed's upper half.
   */
  uint64_t seed_high;
  /*
   OVERBANK_HASH_XXH3 or OVERBANK_HASH_SIPHASH13.
   */
  uint32_t kind;
} overbank_hasher;

/*
 The hash of a key: 128 bits. For XXH3 these are the two halves of `XXH128_hash_t`.
 */
typedef struct {
  /*
   The lower half.
   */
  uint64_t low;
  /*
   The upper half: what decides page, partition and hash order.
   */
  uint64_t high;
} overbank_hash;

/*
 A count with the interval that holds the true one.
 */
typedef struct {
  /*
   The true count is not below this.
   */
  uint64_t lower;
  /*
   The estimate.
   */
  uint64_t estimate;
  /*
   The true count is not above this; UINT64_MAX: no bound is known.
   */
  uint64_t upper;
} overbank_count;

/*
 The same of weights of either sign.
 */
typedef struct {
  /*
   The true sum is not below this.
   */
  int64_t lower;
  /*
   The estimate.
   */
  int64_t estimate;
  /*
   The true sum is not above this.
   */
  int64_t upper;
} overbank_signed_count;

/*
 A number with the interval that holds the true one.
 */
typedef struct {
  /*
   Not below this.
   */
  double lower;
  /*
   The estimate.
   */
  double estimate;
  /*
   Not above this; infinity: no bound is known.
   */
  double upper;
} overbank_real;

/*
 A heavy key.
 */
typedef struct {
  /*
   Its hash: what identifies it.
   */
  overbank_hash hash;
  /*
   How often it came.
   */
  overbank_count count;
  /*
   How many bytes of `key` are its own.
   */
  uint32_t key_len;
  /*
   1 if the key is longer than that, else 0.
   */
  uint32_t truncated;
  /*
   Its first bytes.
   */
  uint8_t key[OVERBANK_KEY_BYTES];
} overbank_heavy;

/*
 How a store is opened: all zero for the defaults.
 */
typedef struct {
  /*
   What all that is open in it takes of RAM together; 0: the library's choice.
   */
  size_t memory_bytes;
  /*
   Threads that work beside the callers; 0: the library's choice.
   */
  size_t threads;
  /*
   The hasher of a new store; a kind of 0: XXH3 with a random seed. A store that is there keeps its own.
   */
  overbank_hasher hasher;
} overbank_store_options;

/*
 A function of a column.
 */
typedef struct {
  /*
   OVERBANK_COUNT_ROWS and so on.
   */
  uint32_t function;
  /*
   Of which column; OVERBANK_COUNT_ROWS does not look at it.
   */
  uint32_t column;
  /*
   What some functions need; 0 else.
   */
  double argument;
} overbank_function;

/*
 An item of a row, or what a function says.
 */
typedef struct {
  /*
   OVERBANK_NULL and so on; says which of the others hold.
   */
  uint32_t kind;
  /*
   Of OVERBANK_UNSIGNED.
   */
  uint64_t unsigned_value;
  /*
   Of OVERBANK_SIGNED.
   */
  int64_t signed_value;
  /*
   Of OVERBANK_FLOAT and OVERBANK_ABOUT.
   */
  double float_value;
  /*
   Of OVERBANK_ABOUT: the truth is not below this.
   */
  double lower;
  /*
   Of OVERBANK_ABOUT: the truth is not above this.
   */
  double upper;
  /*
   Of OVERBANK_BYTES: until the group that it is of is freed, or its scan goes on.
   */
  overbank_bytes bytes;
} overbank_value;

/*
 What is monitored, and how: all zero but `kind` and `hasher.kind` for the library's choices.
 */
typedef struct {
  /*
   OVERBANK_COUNT_MIN, _COUNT_SKETCH, _COCO, _ELASTIC, _UNIVMON: flows and their sizes; _HYPERLOGLOG, _LOGLOG: how many there are;
   _DDSKETCH: quantiles of the packets' weights.
   */
  uint32_t kind;
  /*
   Threads that receive packets; 0: 1.
   */
  uint32_t workers;
  /*
   Counters of a row; 0: 65,536. Of _HYPERLOGLOG and _LOGLOG, the binary logarithm of the number of registers; 0: 14.
   */
  uint32_t columns;
  /*
   Rows: 2 to 5; 0: 3. _COCO has 2, _UNIVMON 5, _ELASTIC 1.
   */
  uint32_t rows;
  /*
   Buckets of _ELASTIC, levels of _UNIVMON; 0: 8192, or 8.
   */
  uint32_t parts;
  /*
   Heavy keys that are kept; 0: 1024.
   */
  uint32_t heavy_keys;
  /*
   Past epochs that are kept; 0: 1.
   */
  uint32_t epochs_kept;
  /*
   The aggregator's share of a core, 0 to 1; 0: no limit.
   */
  double cpu_share;
  /*
   How the packets' keys are hashed.
   */
  overbank_hasher hasher;
} overbank_monitor_options;

/*
 A packet. 64 bytes: a line of cache.
 */
typedef struct {
  /*
   The hash of the flow's key: overbank_hash_keys.
   */
  overbank_hash hash;
  /*
   What it counts: 1, or its bytes.
   */
  uint64_t weight;
  /*
   How many bytes of `key` are its own.
   */
  uint8_t key_len;
  /*
   The flow's key; the rest is not looked at.
   */
  uint8_t key[OVERBANK_FLOW_BYTES];
} overbank_packet;

/*
 What a poll did.
 */
typedef struct {
  /*
   Messages applied.
   */
  uint64_t applied;
  /*
   Messages that still wait.
   */
  uint64_t queue;
  /*
   For how long to rest before the next poll: 0 unless the share of a core is limited.
   */
  uint64_t rest_ns;
} overbank_polled;

/*
 How a monitor is.
 */
typedef struct {
  /*
   The current epoch: 0 at first.
   */
  uint64_t epoch;
  /*
   Its total weight so far.
   */
  uint64_t total_weight;
  /*
   The threshold at which counters are sent.
   */
  uint32_t tau;
  /*
   How many workers there are.
   */
  uint32_t workers;
} overbank_monitor_state;

/*
 What a worker has done.
 */
typedef struct {
  /*
   Packets inserted.
   */
  uint64_t elements;
  /*
   How often a counter was due and its ring full, so that it was kept.
   */
  uint64_t kept;
} overbank_worker_stats;

/*
 A heavy flow.
 */
typedef struct {
  /*
   Its size.
   */
  overbank_count size;
  /*
   How many bytes of `key` are its own.
   */
  uint8_t key_len;
  /*
   Its key; the rest is zero.
   */
  uint8_t key[OVERBANK_FLOW_BYTES];
} overbank_flow;

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

/*
 Why the last call of this thread that failed did so: a sentence with the numbers and the remedy, in UTF-8; empty if none did. It stays
 until the thread's next call that fails, or its end. Never NULL.
 */
const char *overbank_last_error(void);

/*
 The version of the library, such as "0.1.0".
 */
const char *overbank_version(void);

/*
 Where the bytes of a buffer are: until it is freed.

 # Safety
 The crate's rules.
 */
int32_t overbank_buffer_bytes(const overbank_buffer *buffer, overbank_bytes *bytes);

/*
 Frees a buffer; NULL is none.

 # Safety
 The crate's rules.
 */
int32_t overbank_buffer_free(overbank_buffer *buffer);

/*
 Hashes `n` keys to `hashes[0..n]`.

 Cost: a call, some 10 ns, and the hash of each key, some 3 ns for 13 bytes by XXH3. The same bits come from xxHash's own
 `XXH3_128bits_withSeed` (low64 and high64) inlined into C, with the seed `seed_low ^ rotate_left(seed_high, 32)`.

 # Safety
 The crate's rules.
 */
int32_t overbank_hash_keys(const overbank_hasher *hasher, const overbank_bytes *keys_in, size_t n, overbank_hash *hashes);

/*
 Hashes `n` keys of `key_len` bytes each that stand one behind the other, without a pointer each.

 # Safety
 The crate's rules; `keys_in` points to `n * key_len` bytes.
 */
int32_t overbank_hash_fixed(const overbank_hasher *hasher, const uint8_t *keys_in, size_t key_len, size_t n, overbank_hash *hashes);

/*
 A count-min sketch of `depth` rows of `columns` counters.

 # Safety
 The crate's rules.
 */
int32_t overbank_count_min_new(uint32_t columns, uint32_t depth, const overbank_hasher *hasher, overbank_sketch **out);

/*
 A count-min sketch whose estimates are too high by more than `epsilon` of the weight with probability at most `delta`.

 # Safety
 The crate's rules.
 */
int32_t overbank_count_min_with_error(double epsilon, double delta, const overbank_hasher *hasher, overbank_sketch **out);

/*
 A count sketch of `depth` rows of `columns` counters.

 # Safety
 The crate's rules.
 */
int32_t overbank_count_sketch_new(uint32_t columns, uint32_t depth, const overbank_hasher *hasher, overbank_sketch **out);

/*
 A HyperLogLog of `2^lg_m` registers: its standard error is `1.04 / sqrt(2^lg_m)`.

 # Safety
 The crate's rules.
 */
int32_t overbank_hyperloglog_new(uint32_t lg_m, const overbank_hasher *hasher, overbank_sketch **out);

/*
 A LogLog of `2^lg_m` registers: its standard error is `1.30 / sqrt(2^lg_m)`.

 # Safety
 The crate's rules.
 */
int32_t overbank_loglog_new(uint32_t lg_m, const overbank_hasher *hasher, overbank_sketch **out);

/*
 A Locher sketch of `depth` rows of `columns` cells, which names `top` sources by up to `key_bytes_max` bytes of their keys.

 # Safety
 The crate's rules.
 */
int32_t overbank_locher_new(uint32_t columns,
                            uint32_t depth,
                            size_t top,
                            size_t key_bytes_max,
                            const overbank_hasher *hasher,
                            overbank_sketch **out);

/*
 A DDSketch of quantiles that are off by a share of `alpha` at most.

 # Safety
 The crate's rules.
 */
int32_t overbank_ddsketch_new(double alpha, overbank_sketch **out);

/*
 A CocoSketch of `depth` rows of `columns` buckets, each with up to `key_bytes_max` bytes of its key.

 # Safety
 The crate's rules.
 */
int32_t overbank_coco_new(uint32_t columns, uint32_t depth, size_t key_bytes_max, const overbank_hasher *hasher, overbank_sketch **out);

/*
 A UnivMon of `levels` strata, each of `depth` rows of `columns` counters and `top` heavy keys of up to `key_bytes_max` bytes.

 # Safety
 The crate's rules.
 */
int32_t overbank_univmon_new(uint32_t levels,
                             uint32_t columns,
                             uint32_t depth,
                             size_t top,
                             size_t key_bytes_max,
                             const overbank_hasher *hasher,
                             overbank_sketch **out);

/*
 An Elastic sketch of `buckets` for heavy keys of up to `key_bytes_max` bytes, and `depth` rows of `columns` counters for the others.

 # Safety
 The crate's rules.
 */
int32_t overbank_elastic_new(uint32_t buckets,
                             uint32_t columns,
                             uint32_t depth,
                             size_t key_bytes_max,
                             const overbank_hasher *hasher,
                             overbank_sketch **out);

/*
 A space-saving sketch of the `capacity` heaviest keys, of up to `key_bytes_max` bytes each.

 # Safety
 The crate's rules.
 */
int32_t overbank_space_saving_new(size_t capacity, size_t key_bytes_max, const overbank_hasher *hasher, overbank_sketch **out);

/*
 Adds `n` keys by their hashes, with `weights[i]` each, or 1 where `weights` is NULL: count-min, count sketch, HyperLogLog and LogLog,
 the last two whatever the weight.

 # Safety
 The crate's rules.
 */
int32_t overbank_sketch_update(overbank_sketch *sketch, const overbank_hash *hashes, const uint64_t *weights, size_t n);

/*
 Adds `n` keys to a count sketch, with weights of either sign.

 # Safety
 The crate's rules.
 */
int32_t overbank_sketch_update_signed(overbank_sketch *sketch, const overbank_hash *hashes, const int64_t *weights, size_t n);

/*
 Adds `n` keys by their bytes: every sketch of keys. `hasher` is the one that the sketch was made with.

 # Safety
 The crate's rules.
 */
int32_t overbank_sketch_update_keys(overbank_sketch *sketch,
                                    const overbank_hasher *hasher,
                                    const overbank_bytes *keys_in,
                                    const uint64_t *weights,
                                    size_t n);

/*
 Adds `n` pairs of a source and an item to a Locher sketch.

 # Safety
 The crate's rules.
 */
int32_t overbank_sketch_update_pairs(overbank_sketch *sketch,
                                     const overbank_hasher *hasher,
                                     const overbank_bytes *sources,
                                     const overbank_bytes *items,
                                     size_t n);

/*
 Adds `n` values to a DDSketch, `counts[i]` times each, or once where `counts` is NULL. What is no number is counted apart.

 # Safety
 The crate's rules.
 */
int32_t overbank_sketch_update_values(overbank_sketch *sketch, const double *values, const uint64_t *counts, size_t n);

/*
 Adds another sketch of the same kind, shape and hash, which stays as it is.

 # Safety
 The crate's rules.
 */
int32_t overbank_sketch_merge(overbank_sketch *into, const overbank_sketch *from);

/*
 A copy.

 # Safety
 The crate's rules.
 */
int32_t overbank_sketch_clone(const overbank_sketch *sketch, overbank_sketch **out);

/*
 Its bytes: the same on every machine.

 # Safety
 The crate's rules.
 */
int32_t overbank_sketch_to_bytes(const overbank_sketch *sketch, overbank_buffer **out);

/*
 A sketch from its bytes, which may be anything: what no sketch of this kind wrote is OVERBANK_CORRUPT.

 # Safety
 The crate's rules.
 */
int32_t overbank_sketch_from_bytes(uint32_t kind, const uint8_t *bytes, size_t len, overbank_sketch **out);

/*
 Its kind: OVERBANK_COUNT_MIN and so on.

 # Safety
 The crate's rules.
 */
int32_t overbank_sketch_kind(const overbank_sketch *sketch, uint32_t *kind);

/*
 Frees a sketch; NULL is none.

 # Safety
 The crate's rules.
 */
int32_t overbank_sketch_free(overbank_sketch *sketch);

/*
 How often each of `n` keys came, with bounds of this confidence: count-min, CocoSketch, UnivMon, Elastic, and space-saving, whose bounds
 are certain.

 # Safety
 The crate's rules.
 */
int32_t overbank_sketch_counts(const overbank_sketch *sketch,
                               const overbank_hash *hashes,
                               size_t n,
                               double confidence,
                               overbank_count *counts);

/*
 What the weights of each of `n` keys come to in a count sketch.

 # Safety
 The crate's rules.
 */
int32_t overbank_sketch_signed_counts(const overbank_sketch *sketch,
                                      const overbank_hash *hashes,
                                      size_t n,
                                      double confidence,
                                      overbank_signed_count *counts);

/*
 How many different items each of `n` sources has, of a Locher sketch.

 # Safety
 The crate's rules.
 */
int32_t overbank_sketch_items(const overbank_sketch *sketch,
                              const overbank_hash *sources,
                              size_t n,
                              double confidence,
                              overbank_real *items);

/*
 How many different keys came, within so many standard errors: HyperLogLog, LogLog, UnivMon, and Elastic, whose error is not known.

 # Safety
 The crate's rules.
 */
int32_t overbank_sketch_distinct(const overbank_sketch *sketch, double sigmas, overbank_real *distinct);

/*
 The entropy of the keys' shares in bits, within so many standard errors: UnivMon, and Elastic, whose error is not known.

 # Safety
 The crate's rules.
 */
int32_t overbank_sketch_entropy(const overbank_sketch *sketch, double sigmas, overbank_real *entropy);

/*
 The value of a DDSketch of which a share of `q` is less: 0.5 is the median. OVERBANK_NOT_FOUND where there is no value.

 # Safety
 The crate's rules.
 */
int32_t overbank_sketch_quantile(const overbank_sketch *sketch, double q, overbank_real *value);

/*
 The heaviest keys, heaviest first, `capacity` at most: CocoSketch, UnivMon, Elastic and space-saving. `count` tells how many there are.

 # Safety
 The crate's rules.
 */
int32_t overbank_sketch_top(const overbank_sketch *sketch, double confidence, overbank_heavy *heavy, size_t capacity, size_t *count);

/*
 The sum of all weights, UINT64_MAX for that and more; of a DDSketch, the number of values.

 # Safety
 The crate's rules.
 */
int32_t overbank_sketch_total_weight(const overbank_sketch *sketch, uint64_t *weight);

/*
 Opens the store of a directory for writing, or makes it. `options` may be NULL.

 # Safety
 The crate's rules.
 */
int32_t overbank_store_open(const char *path, const overbank_store_options *options, overbank_store **out);

/*
 Opens the last commit of a store, also beside its writer.

 # Safety
 The crate's rules.
 */
int32_t overbank_store_open_read_only(const char *path, const overbank_store_options *options, overbank_store **out);

/*
 A store in RAM, gone when it is freed.

 # Safety
 The crate's rules.
 */
int32_t overbank_store_in_memory(const overbank_store_options *options, overbank_store **out);

/*
 Makes all structures durable as they are, together with the source's position, of 64 KiB at most; or nothing.

 # Safety
 The crate's rules.
 */
int32_t overbank_store_commit(const overbank_store *store, const uint8_t *position, size_t len);

/*
 The position of the last commit.

 # Safety
 The crate's rules.
 */
int32_t overbank_store_position(const overbank_store *store, overbank_buffer **out);

/*
 How the store's keys are hashed.

 # Safety
 The crate's rules.
 */
int32_t overbank_store_hasher(const overbank_store *store, overbank_hasher *hasher);

/*
 Closes a structure by name: handles of it answer OVERBANK_CLOSED from then on.

 # Safety
 The crate's rules.
 */
int32_t overbank_store_close(const overbank_store *store, const char *name);

/*
 Frees a store, which closes it. What was not committed is gone; handles of its structures write nothing any more, and are still to be
 freed.

 # Safety
 The crate's rules.
 */
int32_t overbank_store_free(overbank_store *store);

/*
 Opens a filter, or makes one for so many keys that takes a new key for a seen one with this probability, in so much of the store's
 memory. Zeros are the library's choice.

 # Safety
 The crate's rules.
 */
int32_t overbank_filter_open(const overbank_store *store,
                             const char *name,
                             uint64_t expected_keys,
                             double false_positive_rate,
                             size_t memory_bytes,
                             overbank_filter **out);

/*
 Inserts `n` keys.

 # Safety
 The crate's rules.
 */
int32_t overbank_filter_insert(const overbank_filter *filter, const overbank_hash *hashes, size_t n);

/*
 Inserts those of `n` keys that are not there; `is_new[i]` is 1 where key `i` was not, also of equal keys of the call the first.

 # Safety
 The crate's rules.
 */
int32_t overbank_filter_insert_if_absent(const overbank_filter *filter, const overbank_hash *hashes, size_t n, uint8_t *is_new);

/*
 As `overbank_filter_insert_if_absent`, of keys that the filter hashes.

 # Safety
 The crate's rules.
 */
int32_t overbank_filter_insert_keys_if_absent(const overbank_filter *filter, const overbank_bytes *keys_in, size_t n, uint8_t *is_new);

/*
 Whether each of `n` keys is there: 1, or surely not: 0.

 # Safety
 The crate's rules.
 */
int32_t overbank_filter_contains(const overbank_filter *filter, const overbank_hash *hashes, size_t n, uint8_t *are_in);

/*
 Takes `n` keys out that were inserted before.

 # Safety
 The crate's rules.
 */
int32_t overbank_filter_remove(const overbank_filter *filter, const overbank_hash *hashes, size_t n);

/*
 Frees the handle; the filter stays in its store.

 # Safety
 The crate's rules.
 */
int32_t overbank_filter_free(overbank_filter *filter);

/*
 Opens counts, or makes them: an estimate is too high by more than `epsilon` of the weight with probability `delta` at most.
 `memory_bytes` is of the store's; 0: the library's choice.

 # Safety
 The crate's rules.
 */
int32_t overbank_frequency_open(const overbank_store *store,
                                const char *name,
                                double epsilon,
                                double delta,
                                size_t memory_bytes,
                                overbank_frequency **out);

/*
 Adds `weights[i]` to each of `n` keys, or 1 where `weights` is NULL.

 # Safety
 The crate's rules.
 */
int32_t overbank_frequency_update(const overbank_frequency *frequency, const overbank_hash *hashes, const uint64_t *weights, size_t n);

/*
 How often each of `n` keys came, with bounds of this confidence.

 # Safety
 The crate's rules.
 */
int32_t overbank_frequency_counts(const overbank_frequency *frequency,
                                  const overbank_hash *hashes,
                                  size_t n,
                                  double confidence,
                                  overbank_count *counts);

/*
 The sum of all weights; UINT64_MAX for that and more.

 # Safety
 The crate's rules.
 */
int32_t overbank_frequency_total_weight(const overbank_frequency *frequency, uint64_t *weight);

/*
 Frees the handle; the counts stay in their store.

 # Safety
 The crate's rules.
 */
int32_t overbank_frequency_free(overbank_frequency *frequency);

/*
 Opens a dictionary, or makes one, in so much of the store's memory; 0: the library's choice.

 # Safety
 The crate's rules.
 */
int32_t overbank_dictionary_open(const overbank_store *store, const char *name, size_t memory_bytes, overbank_dictionary **out);

/*
 Gives each of `n` keys its value, in place of one that it has.

 # Safety
 The crate's rules.
 */
int32_t overbank_dictionary_insert(const overbank_dictionary *dictionary,
                                   const overbank_bytes *keys_in,
                                   const overbank_bytes *values,
                                   size_t n);

/*
 Looks `n` keys up: one wave of reads.

 # Safety
 The crate's rules.
 */
int32_t overbank_dictionary_get(const overbank_dictionary *dictionary, const overbank_bytes *keys_in, size_t n, overbank_values **out);

/*
 Removes `n` keys, those that are there.

 # Safety
 The crate's rules.
 */
int32_t overbank_dictionary_remove(const overbank_dictionary *dictionary, const overbank_bytes *keys_in, size_t n);

/*
 The value of key `i` of a lookup, until the list is freed. OVERBANK_NOT_FOUND where the key has none.

 # Safety
 The crate's rules.
 */
int32_t overbank_values_get(const overbank_values *values, size_t i, overbank_bytes *value);

/*
 Frees a list of values; NULL is none.

 # Safety
 The crate's rules.
 */
int32_t overbank_values_free(overbank_values *values);

/*
 Frees the handle; the dictionary stays in its store.

 # Safety
 The crate's rules.
 */
int32_t overbank_dictionary_free(overbank_dictionary *dictionary);

/*
 Groups by `functions` of columns of these types, in so much memory; 0: the library's choice. With a store, they are its structure of
 that name, and what memory does not hold goes to its files; with `store` NULL they are in RAM, `name` is not looked at, and `hasher` may
 be NULL for a random seed.

 # Safety
 The crate's rules.
 */
int32_t overbank_groups_new(const overbank_store *store,
                            const char *name,
                            const uint32_t *types,
                            size_t types_len,
                            const overbank_function *functions,
                            size_t functions_len,
                            size_t memory_bytes,
                            const overbank_hasher *hasher,
                            overbank_groups **out);

/*
 Takes `rows` rows in: row `i` is of the group of `keys[i]`, and its items are `items[i * columns]` and on, one a column.

 # Safety
 The crate's rules; `items` points to `rows` times as many as there are columns.
 */
int32_t overbank_groups_insert(const overbank_groups *groups, const overbank_bytes *keys_in, const overbank_value *items, size_t rows);

/*
 Takes everything that waits into the groups, so that what is asked next is quicker.

 # Safety
 The crate's rules.
 */
int32_t overbank_groups_finalize(const overbank_groups *groups);

/*
 How many groups there are.

 # Safety
 The crate's rules.
 */
int32_t overbank_groups_count(const overbank_groups *groups, uint64_t *count);

/*
 The group of a key. OVERBANK_NOT_FOUND, and no group, where it has no row.

 # Safety
 The crate's rules.
 */
int32_t overbank_groups_get(const overbank_groups *groups, const uint8_t *key, size_t key_len, overbank_group **out);

/*
 All groups, in the order of their keys' hashes: stands before the first, and `overbank_group_next` goes on.

 # Safety
 The crate's rules.
 */
int32_t overbank_groups_scan(const overbank_groups *groups, overbank_group **out);

/*
 Goes on to the next group of a scan. OVERBANK_NOT_FOUND behind the last.

 # Safety
 The crate's rules.
 */
int32_t overbank_group_next(overbank_group *group);

/*
 The group's key, until it is freed or goes on.

 # Safety
 The crate's rules.
 */
int32_t overbank_group_key(const overbank_group *group, overbank_bytes *key);

/*
 What function `i` says of the group.

 # Safety
 The crate's rules.
 */
int32_t overbank_group_value(const overbank_group *group, size_t i, overbank_value *value);

/*
 Frees a group, or the scan; NULL is none.

 # Safety
 The crate's rules.
 */
int32_t overbank_group_free(overbank_group *group);

/*
 Frees the handle of groups; those of a store stay there.

 # Safety
 The crate's rules.
 */
int32_t overbank_groups_free(overbank_groups *groups);

/*
 Starts to monitor. The parts are taken by overbank_monitor_worker, _aggregator and _reader, and live on when this is freed.

 # Safety
 The crate's rules.
 */
int32_t overbank_monitor_start(const overbank_monitor_options *options, overbank_monitor **out);

/*
 Takes worker `index` out of the monitor: each once.

 # Safety
 The crate's rules.
 */
int32_t overbank_monitor_worker(const overbank_monitor *monitor, uint32_t index, overbank_worker **out);

/*
 Takes the aggregator out of the monitor: once.

 # Safety
 The crate's rules.
 */
int32_t overbank_monitor_aggregator(const overbank_monitor *monitor, overbank_aggregator **out);

/*
 A reader of the monitor: any number.

 # Safety
 The crate's rules.
 */
int32_t overbank_monitor_reader(const overbank_monitor *monitor, overbank_reader **out);

/*
 Frees a monitor, and what was not taken out of it.

 # Safety
 The crate's rules.
 */
int32_t overbank_monitor_free(overbank_monitor *monitor);

/*
 Inserts `n` packets, such as those of one receive call, and publishes. All of them or, where one is refused, none.

 # Safety
 The crate's rules.
 */
int32_t overbank_worker_insert(overbank_worker *worker, const overbank_packet *packets, size_t n);

/*
 Lets the aggregator have what is due, and goes over to a new epoch: to be called by a worker that has nothing to insert.

 # Safety
 The crate's rules.
 */
int32_t overbank_worker_publish(overbank_worker *worker);

/*
 Sends what the counters hold, as far as there is room; `is_done` is 1 once all is sent, else poll the aggregator and call again. Readers
 need no flush: they look into the workers.

 # Safety
 The crate's rules.
 */
int32_t overbank_worker_flush(overbank_worker *worker, uint8_t *is_done);

/*
 Frees a worker. What it counted stays counted.

 # Safety
 The crate's rules.
 */
int32_t overbank_worker_free(overbank_worker *worker);

/*
 Takes what waits, up to some hundred messages a worker: to be called again and again. `polled` may be NULL.

 # Safety
 The crate's rules.
 */
int32_t overbank_aggregator_poll(overbank_aggregator *aggregator, overbank_polled *polled);

/*
 Begins a new epoch, and tells its number. OVERBANK_BUSY while the one before the current is still being settled: poll, and try again.

 # Safety
 The crate's rules.
 */
int32_t overbank_aggregator_begin_epoch(overbank_aggregator *aggregator, uint64_t *epoch);

/*
 Frees an aggregator. Readers go on to answer.

 # Safety
 The crate's rules.
 */
int32_t overbank_aggregator_free(overbank_aggregator *aggregator);

/*
 How the monitor is now.

 # Safety
 The crate's rules.
 */
int32_t overbank_reader_state(const overbank_reader *reader, overbank_monitor_state *state);

/*
 What each worker has done: `workers` of them, as the monitor's state tells.

 # Safety
 The crate's rules.
 */
int32_t overbank_reader_worker_stats(const overbank_reader *reader, overbank_worker_stats *stats, size_t workers);

/*
 The sizes of `n` flows over the epochs `first` to `last`, with bounds: _COUNT_MIN, _COCO and _ELASTIC; others by their sketch. Of
 _COUNT_MIN, `estimate` and `upper` are certain. OVERBANK_NOT_FOUND where an epoch is not kept any more.

 # Safety
 The crate's rules.
 */
int32_t overbank_reader_counts(const overbank_reader *reader,
                               uint64_t first,
                               uint64_t last,
                               const overbank_hash *hashes,
                               size_t n,
                               double confidence,
                               overbank_count *counts);

/*
 The heaviest flows that are known of the epochs `first` to `last`, heaviest first, `capacity` at most; `count` tells how many. Of
 _COUNT_MIN one epoch at a time.

 # Safety
 The crate's rules.
 */
int32_t overbank_reader_flows(const overbank_reader *reader,
                              uint64_t first,
                              uint64_t last,
                              double confidence,
                              overbank_flow *flows,
                              size_t capacity,
                              size_t *count);

/*
 The sketch of the epochs `first` to `last`, to be asked, merged and kept: of every kind.

 # Safety
 The crate's rules.
 */
int32_t overbank_reader_sketch(const overbank_reader *reader, uint64_t first, uint64_t last, overbank_sketch **out);

/*
 Frees a reader.

 # Safety
 The crate's rules.
 */
int32_t overbank_reader_free(overbank_reader *reader);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* OVERBANK_H */
