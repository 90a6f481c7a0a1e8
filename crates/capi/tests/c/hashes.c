/* Prints hashes of keys of many lengths, by both functions. */
#include "check.h"
#include <inttypes.h>
#include <string.h>

int main(void) {
    static const uint64_t seeds[3][2] = {{0, 0}, {42, 0}, {UINT64_C(0x89abcdef0badcafe), UINT64_C(0xdeadbeef01234567)}};
    static const size_t lens[] = {0, 1, 3, 4, 8, 9, 13, 16, 17, 37, 39, 128, 129, 240, 241, 1000};
    uint8_t key[1000];
    for (size_t i = 0; i < sizeof key; i++) {
        key[i] = (uint8_t)(i * 7 + 3);
    }
    for (uint32_t kind = OVERBANK_HASH_XXH3; kind <= OVERBANK_HASH_SIPHASH13; kind++) {
        for (int seed = 0; seed < 3; seed++) {
            overbank_hasher hasher = {.seed_low = seeds[seed][0], .seed_high = seeds[seed][1], .kind = kind};
            for (size_t i = 0; i < sizeof lens / sizeof *lens; i++) {
                overbank_bytes bytes = {key, lens[i]};
                overbank_hash hash, again;
                OK(overbank_hash_keys(&hasher, &bytes, 1, &hash));
                OK(overbank_hash_fixed(&hasher, key, lens[i], 1, &again));
                TRUE(memcmp(&hash, &again, sizeof hash) == 0);
                printf("%zu %016" PRIx64 "%016" PRIx64 "\n", lens[i], hash.high, hash.low);
            }
        }
    }
    return 0;
}
