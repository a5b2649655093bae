#!/usr/bin/env bash
# Compares cold random reads of 4 KiB by laio and by fio's io_uring engine, on one file, in turns.
#
#   benches/fio.sh [DIRECTORY]
#
# DIRECTORY (default: the temporary directory) must be on a disk. Environment variables:
#   LAIO      the laio command          (default: target/release/laio, built if missing)
#   BACKENDS  back ends to compare      (default: "lazy uring")
#   DEPTHS    reads in flight           (default: "32 128")
#   DURATION  time of each measurement  (default: 3)
#   ROUNDS    turns                     (default: 3)
#   SIZE_MIB  size of the file          (default: 1024)
#
# Prints the reads per second of both and their ratio, and the median of the ratios. Both read through
# the page cache, from which the file is dropped before each measurement; root drops all of the cache.
set -euo pipefail
cd "$(dirname "$0")/.."

directory=${1:-${TMPDIR:-/tmp}}
laio=${LAIO:-target/release/laio}
backends=${BACKENDS:-lazy uring}
depths=${DEPTHS:-32 128}
seconds=${DURATION:-3}
rounds=${ROUNDS:-3}
size=${SIZE_MIB:-1024}

command -v fio >/dev/null || { echo "fio is not installed: skipping the comparison"; exit 0; }
if [ -z "${LAIO:-}" ] && [ ! -x "$laio" ]; then
    cargo build --release --locked --quiet --package laio-cli
fi

file=$(mktemp "$directory/laio-fio-XXXXXX")
trap 'rm -f "$file"' EXIT
dd if=/dev/urandom of="$file" bs=1M count="$size" conv=fsync status=none

drop() {
    # Works for the owner of the file; only root may drop the rest of the cache.
    dd of="$file" oflag=nocache conv=notrunc,fdatasync count=0 status=none
    if [ -w /proc/sys/vm/drop_caches ]; then
        echo 1 >/proc/sys/vm/drop_caches
    fi
}

# Prints fio's reads per second: field 8 of its terse format, without its time stamps, which slow it down.
fio_iops() {
    drop
    fio --name=cold --filename="$file" --ioengine=io_uring --rw=randread --bs=4k --iodepth="$1" \
        --direct=0 --size="${size}M" --time_based --runtime="$seconds" --gtod_reduce=1 \
        --output-format=terse --terse-version=3 | cut -d';' -f8
}

# Prints laio's reads per second, from the mean nanoseconds of a read. The mean, because fio's rate contains
# all reads.
laio_iops() {
    drop
    "$laio" bench calls --call "cold-$1" --backend "$2" --file "$file" --seconds "$seconds" --json |
        awk -v backend="\"$2\"," '
            $1 == "\"backend\":" { wanted = $2 == backend }
            $1 == "\"mean_ns\":" && wanted { sub(",", "", $2); printf "%d\n", 1e9 / $2 }'
}

median() {
    sort -n | awk '{ value[NR] = $1 } END { print (value[int((NR + 1) / 2)] + value[int(NR / 2) + 1]) / 2 }'
}

for depth in $depths; do
    for backend in $backends; do
        ratios=
        for round in $(seq "$rounds"); do
            theirs=$(fio_iops "$depth")
            ours=$(laio_iops "$depth" "$backend")
            ratio=$(awk -v ours="$ours" -v theirs="$theirs" 'BEGIN { printf "%.2f", ours / theirs }')
            ratios+="$ratio "
            printf '%3d in flight  %-10s  round %d  %8d/s  fio %8d/s  ratio %s\n' \
                "$depth" "$backend" "$round" "$ours" "$theirs" "$ratio"
        done
        printf '%3d in flight  %-10s  median ratio %s\n' \
            "$depth" "$backend" "$(tr ' ' '\n' <<<"$ratios" | sed '/^$/d' | median)"
    done
done
