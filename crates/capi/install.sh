#!/bin/sh
# Installs the C interface below a prefix: install.sh TARGET_FOLDER PREFIX. With DESTDIR, below that, for packages.
set -eu
if [ $# -ne 2 ]; then
    echo "usage: $0 TARGET_FOLDER PREFIX, such as target/release /usr/local" >&2
    exit 2
fi
here=$(cd "$(dirname "$0")" && pwd)
built=$1
case $2 in
    /*) prefix=${2%/} ;;
    *) echo "the prefix $2 is not a path from the root; give one, such as /usr/local" >&2; exit 2 ;;
esac
to=${DESTDIR:-}$prefix
version=$(sed -n 's/^version = "\(.*\)"$/\1/p' "$here/../../Cargo.toml" | head -n 1)
major=${version%%.*}
for file in liboverbank_capi.so liboverbank_capi.a; do
    if [ ! -f "$built/$file" ]; then
        echo "$built/$file is not there; run 'make capi' first" >&2
        exit 1
    fi
done
mkdir -p "$to/include" "$to/lib/pkgconfig"
install -m 644 "$here/include/overbank.h" "$to/include/overbank.h"
install -m 644 "$built/liboverbank_capi.a" "$to/lib/liboverbank.a"
install -m 755 "$built/liboverbank_capi.so" "$to/lib/liboverbank.so.$version"
ln -sf "liboverbank.so.$version" "$to/lib/liboverbank.so.$major"
ln -sf "liboverbank.so.$major" "$to/lib/liboverbank.so"
sed -e "s|@PREFIX@|$prefix|" -e "s|@VERSION@|$version|" "$here/overbank.pc.in" > "$to/lib/pkgconfig/overbank.pc"
