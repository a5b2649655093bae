#!/usr/bin/env bash
# Compares direct reads of random ranges: File::read_ranges of laio-rt (one thread), fio's io_uring engine (one
# thread), and pread with O_DIRECT in 32 threads; in turns, on one file.
#
#   benches/ranges.sh [DIRECTORY]
#
# DIRECTORY (default: the temporary directory) must be on a disk. Environment variables:
#   SIZES     bytes of each range       (default: "4096 65536 1048576")
#   DEPTHS    reads in flight           (default: "32 256")
#   DURATION  time of each measurement  (default: 3)
#   ROUNDS    turns                     (default: 3)
#   SIZE_MIB  size of the file          (default: 2048)
#
# Then a request for 1,250 ranges of 51,200 bytes, evenly spaced in the file's first GiB: File::read_ranges_with of
# laio-tokio on one thread, through the cache and past it, and a mapping whose pages one thread looks at; cold
# (the file is dropped from the cache) and warm. In ms.
#
# Prints for each the median of the reads per second and of the µs of processor time for one read (user and kernel,
# without the kernel's own threads), and their ratios to laio's. The first line says how busy the machine was.
set -euo pipefail
cd "$(dirname "$0")/.."

directory=${1:-${TMPDIR:-/tmp}}
seconds=${DURATION:-3}
rounds=${ROUNDS:-3}
size=${SIZE_MIB:-2048}

for need in fio cc; do
    command -v $need >/dev/null || { echo "$need is not installed: skipping the comparison"; exit 0; }
done
cargo build --release --locked --quiet --package laio-rt --example range_reads
cargo build --release --locked --quiet --package laio-tokio --example column_chunks
laio=target/release/examples/range_reads
chunks=target/release/examples/column_chunks

work=$(mktemp -d "$directory/laio-ranges-XXXXXX")
trap 'rm -rf "$work"' EXIT
cc -O2 -pthread -o "$work/ranges" benches/ranges.c
dd if=/dev/urandom of="$work/file" bs=1M count="$size" conv=fsync status=none
file=$work/file

# Reads per second, and µs of processor time for one: fields 8 and 88, 89 of fio's terse format.
fio_ring() {
    fio --name=direct --filename="$file" --ioengine=io_uring --rw=randread --bs="$1" --iodepth="$2" --direct=1 \
        --size="${size}M" --time_based --runtime="$seconds" --gtod_reduce=1 --norandommap \
        --output-format=json |
        awk '/"usr_cpu"/ { gsub(/[^0-9.]/, ""); cpu += $0 }
             /"sys_cpu"/ { gsub(/[^0-9.]/, ""); cpu += $0 }
             /"read" : {/ { in_read = 1 }
             in_read && /"iops" :/ { gsub(/[^0-9.]/, ""); rate = $0; in_read = 0 }
             END { printf "%d %.2f\n", rate, cpu * 1e4 / rate }'
}

run() {
    case $1 in
    laio) "$laio" "$file" "$2" "$3" "$seconds" always ;;
    fio) fio_ring "$2" "$3" ;;
    pread) "$work/ranges" "$file" "$2" 32 "$seconds" direct ;;
    esac
}

median() { sort -g | awk '{ all[NR] = $1 } END { print all[int((NR + 1) / 2)] }'; }

echo "load: $(cut -d' ' -f1-3 /proc/loadavg), processors: $(nproc), Linux $(uname -r), $rounds rounds of $seconds s"
printf '%-8s %-6s %-6s %10s %8s %7s %7s\n' bytes depth what reads/s µs/read rate cpu
for bytes in ${SIZES:-4096 65536 1048576}; do
    for depth in ${DEPTHS:-32 256}; do
        rm -f "$work"/result-*
        for ((round = 0; round < rounds; round++)); do
            for what in laio fio pread; do
                run $what "$bytes" "$depth" >>"$work/result-$what"
            done
        done
        for what in laio fio pread; do
            rate=$(cut -d' ' -f1 "$work/result-$what" | median)
            cpu=$(cut -d' ' -f2 "$work/result-$what" | median)
            [ $what = laio ] && own_rate=$rate own_cpu=$cpu
            awk -v own_rate="$own_rate" -v own_cpu="$own_cpu" -v rate="$rate" -v cpu="$cpu" -v what=$what \
                -v bytes="$bytes" -v depth="$depth" \
                'BEGIN { printf "%-8d %-6d %-6s %10d %8.2f %7.2f %7.2f\n", bytes, depth, what, rate, cpu,
                         own_rate / rate, own_cpu / cpu }'
        done
    done
done

truncate --size=1G "$file"
drop() { dd of="$file" oflag=nocache conv=notrunc,fdatasync count=0 status=none; }

request() {
    case $1 in
    mmap) "$work/ranges" "$file" 51200 1250 0 chunks ;;
    *) "$chunks" "$file" 1250 51200 "$1" ;;
    esac
}

rm -f "$work"/result-*
for ((round = 0; round < rounds; round++)); do
    for what in never always mmap; do
        drop
        request $what >>"$work/result-cold-$what"
    done
    cat "$file" >/dev/null
    for what in never always mmap; do
        request $what >>"$work/result-warm-$what"
    done
done
printf '\n%-6s %-8s %8s %8s\n' cache what ms cpu-ms
for cache in cold warm; do
    for what in never always mmap; do
        printf '%-6s %-8s %8.1f %8.1f\n' $cache $what "$(cut -d' ' -f1 "$work/result-$cache-$what" | median)" \
            "$(cut -d' ' -f2 "$work/result-$cache-$what" | median)"
    done
done
