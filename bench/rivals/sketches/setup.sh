#!/usr/bin/env bash
# Builds the sketches that others have published, for `bench monitor_speed` alone: `bash bench/rivals/sketches/setup.sh`. What it makes is
# in data/rivals/sketches; nothing of it is part of the project.
#
#   octosketch/NAME   the code of the paper's authors, a program a sketch (worker.cpp): git, a C++ compiler
#   asap/NAME         the crate asap_sketchlib, one program under the name of each sketch: cargo
#
# OCTOSKETCH_SOURCE=FOLDER takes the authors' code from a folder instead of fetching it.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
made=$(cd "$here/../../.." && pwd)/data/rivals/sketches
commit=3198eb9
mkdir -p "$made/octosketch" "$made/asap"

source=${OCTOSKETCH_SOURCE:-$made/source}
if [ ! -e "$source/CPU" ]; then
    git clone --quiet https://github.com/Froot-NetSys/OctoSketch "$source"
    git -C "$source" checkout --quiet "$commit"
fi

# Our name, the folder, the prefix of its classes, their arguments, the type of a key.
build() {
    local name=$1 folder=$2 prefix=$3 key=$4 workers=$5
    local alone=$prefix"_Ideal$6"
    g++ -O3 -std=c++14 -faligned-new -pthread -mavx2 -w \
        -I"$source/CPU/$folder" -I"$source/CPU" -I"$source/common" -I"$source/queue" -I"$source/sketch" \
        -include unordered_map -include cstring -include cmath -include random -include fcntl.h \
        -include "$source/CPU/$folder/Ideal.h" -include "$source/CPU/$folder/Merge.h" -include "$source/CPU/$folder/Ours.h" \
        "-DKEY=$key" "-DOURS=${prefix}_Ours<$workers>" "-DMERGE=${prefix}_Merge<$workers>" "-DIDEAL=$alone" \
        "$here/worker.cpp" -o "$made/octosketch/$name"
    echo "octosketch $name"
}
of_keys='std::uint64_t, 1'
build count_min CM CM std::uint64_t "$of_keys" '<std::uint64_t>'
build count_sketch Count Count std::uint64_t "$of_keys" '<std::uint64_t>'
build hyperloglog HLL HLL std::uint64_t "$of_keys" '<std::uint64_t>'
build log_log LL LL std::uint64_t "$of_keys" '<std::uint64_t>'
build locher Locher Locher Packet 1 ''
build coco Coco Coco std::uint64_t "$of_keys" '<std::uint64_t>'
build elastic Elastic Elastic std::uint64_t "$of_keys" '<std::uint64_t>'
build univ_mon UnivMon Univ std::uint64_t "$of_keys" '<std::uint64_t>'

cargo build --release --quiet --manifest-path "$here/Cargo.toml" --target-dir "$here/target"
for name in count_min count_sketch hyperloglog ddsketch coco elastic univ_mon; do
    ln -sf "$here/target/release/overbank-rival-sketches" "$made/asap/$name"
    echo "asap $name"
done
