// One worker of a published sketch, timed: `NAME STEP KEYS`, where KEYS is a file of 8-byte keys and STEP one of
//
//   ours    inserts into the change-based sketch, while another thread applies what it sends
//   merge   inserts into whole sketches, each of which another thread adds to its own
//   ideal   inserts into one sketch
//
// Built by setup.sh, once a sketch, with the published headers of that sketch before it and their classes as macros: OURS, MERGE, IDEAL,
// and KEY, the type that they take. The last line says what the worker's thread took, by its CPU time and the wall clock.

#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <fstream>
#include <functional>
#include <string>
#include <thread>
#include <vector>

namespace {

std::uint64_t clock_ns(clockid_t clock) {
    timespec now;
    clock_gettime(clock, &now);
    return static_cast<std::uint64_t>(now.tv_sec) * 1000000000u + static_cast<std::uint64_t>(now.tv_nsec);
}

struct Taken {
    std::uint64_t wall_ns;
    std::uint64_t cpu_ns;
};

// Times work on a thread of its own, beside what the aggregator does.
Taken on_threads(const std::function<void()>& worker, const std::function<void(std::atomic<std::int32_t>&)>& aggregator) {
    Taken taken{};
    std::atomic<std::int32_t> finished(0);
    std::thread thread([&] {
        const auto wall = clock_ns(CLOCK_MONOTONIC), cpu = clock_ns(CLOCK_THREAD_CPUTIME_ID);
        worker();
        taken = {clock_ns(CLOCK_MONOTONIC) - wall, clock_ns(CLOCK_THREAD_CPUTIME_ID) - cpu};
        finished++;
    });
    aggregator(finished);
    thread.join();
    return taken;
}

std::vector<KEY> read_keys(const char* path) {
    static_assert(sizeof(KEY) == 8, "keys are 8 bytes");
    std::ifstream file(path, std::ios::binary | std::ios::ate);
    std::vector<KEY> keys(static_cast<std::size_t>(file.tellg()) / sizeof(KEY));
    file.seekg(0);
    file.read(reinterpret_cast<char*>(keys.data()), static_cast<std::streamsize>(keys.size() * sizeof(KEY)));
    if (!file) {
        std::fprintf(stderr, "cannot read %s\n", path);
        std::exit(2);
    }
    return keys;
}

}  // namespace

int main(int count, char** words) {
    if (count != 3) {
        std::fprintf(stderr, "which step, and which keys?\n");
        return 2;
    }
    const std::string step = words[1];
    const auto keys = read_keys(words[2]);
    Taken taken{};
    if (step == "ours") {
        auto* bench = new OURS;
        auto* total = bench->initialize_parent();
        auto* child = bench->initialize_child();
        taken = on_threads([&] { bench->insert(keys, child, bench->que[0]); },
                           [&](std::atomic<std::int32_t>& finished) { bench->collect(total, finished); });
    } else if (step == "merge") {
        auto* bench = new MERGE;
        auto* total = bench->initialize_parent();
        auto* child = bench->initialize_child();
        taken = on_threads([&] { bench->insert(keys, child, bench->que[0], 0); },
                           [&](std::atomic<std::int32_t>& finished) { bench->collect(total, finished); });
    } else if (step == "ideal") {
        auto* bench = new IDEAL;
        auto* sketch = bench->initialize_sketch();
        const auto insert = [&] {
            for (const auto& key : keys) {
                sketch->insert_one(key);
            }
        };
        taken = on_threads(insert, [](std::atomic<std::int32_t>&) {});
    } else {
        std::fprintf(stderr, "there is no step %s\n", step.c_str());
        return 2;
    }
    std::printf("{\"wall_ns\":%llu,\"cpu_ns\":%llu,\"ops\":%llu}\n", static_cast<unsigned long long>(taken.wall_ns),
                static_cast<unsigned long long>(taken.cpu_ns), static_cast<unsigned long long>(keys.size()));
    return 0;
}
