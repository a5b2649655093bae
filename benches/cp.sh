#!/bin/bash
# laio cp beside GNU cp, and xcp and cpz where they are installed: rounds in turn, on one file system, each copy
# compared with its source. Medians and ratios to cp are printed.
#
#   benches/cp.sh [-d DIRECTORY] [-r ROUNDS] [-l LAIO] [-q] [TREE...]
#
#   DIRECTORY  where trees and copies are made (default .): its file system is what is measured
#   ROUNDS     of each row (default 3)
#   LAIO       the command (default target/release/laio)
#   -q         without comparing
#   TREE       many flat seed4 seed8 seed16 seed32 seed64 big usr (default all but seed8 to seed32); cold trees need
#              root, for the caches to be dropped. TREE:warm or TREE:cold for one of the two only.
#
# many: 100,000 files of 1 KiB in 1,000 directories; flat: in one; seedN: a binary tree of directories, eight deep,
# two files of N KiB in each; big: one file of 4 GiB; usr: /usr.
set -eu
directory=. rounds=3 laio=target/release/laio compare=yes
while getopts d:r:l:q option; do
    case $option in
        d) directory=$OPTARG ;;
        r) rounds=$OPTARG ;;
        l) laio=$OPTARG ;;
        q) compare= ;;
        *) exit 2 ;;
    esac
done
shift $((OPTIND - 1))
laio=$(realpath "$laio")
work=$(mktemp -d "$(realpath "$directory")/laio-bench-cp.XXXXXX")
trap 'rm -rf "$work"' EXIT
[ $# -gt 0 ] || set -- seed4:cold seed64:cold usr many flat big

make_tree() {
    python3 - "$1" "$work/$1" <<'PYTHON'
import os, sys
kind, path = sys.argv[1:]
def files(at, count, size):
    os.makedirs(at)
    for index in range(count):
        with open(f"{at}/{index}", "wb") as file:
            file.write(os.urandom(size))
def node(at, depth, size):
    files(at, 2, size)
    if depth > 1:
        node(f"{at}/left", depth - 1, size)
        node(f"{at}/right", depth - 1, size)
if kind == "flat":
    files(path, 100_000, 1024)
elif kind == "many":
    for index in range(1000):
        files(f"{path}/{index % 32}/{index}", 100, 1024)
elif kind == "big":
    os.makedirs(path)
    with open(f"{path}/file", "wb") as file:
        for _ in range(1024):
            file.write(os.urandom(4 << 20))
elif kind.startswith("seed"):
    node(path, 8, int(kind[4:]) << 10)
else:
    sys.exit(f"no such tree: {kind}")
PYTHON
    sync
}

# One line for each row: tree, cache, tool, seconds, seconds of CPU.
row() {
    local tree=$1 cache=$2 tool=$3 source=$4
    shift 4
    if [ "$cache" = cold ]; then
        sync
        echo 3 > /proc/sys/vm/drop_caches
    fi
    python3 - "$tree" "$cache" "$tool" "$@" "$source" "$work/copy" <<'PYTHON' >> "$work/rows"
import resource, subprocess, sys, time
tree, cache, tool, *command = sys.argv[1:]
begun = time.monotonic()
ended = subprocess.run(command, stderr=subprocess.PIPE)
wall = time.monotonic() - begun
used = resource.getrusage(resource.RUSAGE_CHILDREN)
if ended.returncode:
    print(tree, cache, tool, ended.stderr.decode()[:500], file=sys.stderr)
print(tree, cache, tool, wall, used.ru_utime + used.ru_stime)
PYTHON
}

measure() {
    local tree=$1 cache=$2 source=$3 round
    for round in $(seq "$rounds"); do
        for tool in cp laio xcp laio-r cpz; do
            local same= command
            case $tool in
                cp) command="cp -a" same=yes ;;
                laio) command="$laio cp -a" same=yes ;;
                xcp) command="xcp -r" ;;
                # cpz sets no times and owners; this is what it is to be held against.
                laio-r) command="$laio cp -r" ;;
                cpz) command="cpz" ;;
            esac
            case $tool in
                xcp | cpz) command -v "$tool" > /dev/null || continue ;;
                laio-r) command -v cpz > /dev/null || continue ;;
            esac
            # shellcheck disable=SC2086
            row "$tree" "$cache" "$tool" "$source" $command
            if [ "$same$compare$round" = yesyes1 ] && [ -n "$(rsync -naHAXSx --checksum --delete \
                --itemize-changes "$source/" "$work/copy/")" ]; then
                echo "$tree $cache $tool: the copy differs" >&2
            fi
            # What was deleted is not to be waited for in the next row: inodes deleted last are not used again at
            # once, and looking for others takes time.
            rm -rf "$work/copy"
            sync -f "$work"
        done
    done
}

for tree in "$@"; do
    caches="warm cold"
    case $tree in
        *:*) caches=${tree#*:} tree=${tree%%:*} ;;
    esac
    [ -w /proc/sys/vm/drop_caches ] || caches=${caches/cold/}
    source=$work/$tree
    if [ "$tree" = usr ]; then source=/usr; else make_tree "$tree"; fi
    for cache in $caches; do
        # Once, not measured: so that it is in memory.
        [ "$cache" = cold ] || tar -cf - -C "$source" . 2> /dev/null | cat > /dev/null
        measure "$tree" "$cache" "$source"
    done
    [ "$tree" = usr ] || rm -rf "$source"
done

python3 - "$work/rows" <<'PYTHON'
import statistics, sys
rows = {}
for line in open(sys.argv[1]):
    tree, cache, tool, wall, cpu = line.split()
    rows.setdefault((tree, cache), {}).setdefault(tool, []).append((float(wall), float(cpu)))
print(f"{'tree':8}{'cache':6}{'tool':8}{'wall':>9}{'speed':>8}{'CPU':>9}{'ratio':>8}")
for (tree, cache), tools in rows.items():
    middle = {tool: [statistics.median(column) for column in zip(*runs)] for tool, runs in tools.items()}
    for tool, (wall, cpu) in middle.items():
        print(f"{tree:8}{cache:6}{tool:8}{wall:8.3f}s{middle['cp'][0] / wall:7.2f}x{cpu:8.3f}s{cpu / middle['cp'][1]:8.2f}")
PYTHON
