# shellcheck shell=bash
# Disks of files: an image is made once, and then attached, as it is or as a disk that is slow, for each case.

# The loop device, and the process of a slow disk.
loop='' disk=''

# image KIB: $room/KIB.img, an ext4 with $files files of so many KiB, and $room/KIB.trace, each of them once in random order
image() {
    local kib=$1 image=$room/$1.img
    [ -e "$image" ] && return
    echo "making $files files of $kib KiB" >&2
    awk -v files="$files" -v bytes=$((kib * 1024)) 'BEGIN { for (n = 0; n < files; n++)
        printf "- - - [22/Nov/2026:00:00:00 +0000] \"GET /d%03d/f%02d HTTP/1.1\" 200 %d\n", n / 100, n % 100, bytes }' >"$room/log"
    truncate -s $((files * (kib + 4) / 930 + 150))M "$image"
    mkfs.ext4 -q -F -m 0 -N $((files * 11 / 10 + 1000)) -E lazy_itable_init=0,lazy_journal_init=0 "$image"
    attach "$image"
    "$laio" trace import "$room/log" --to "$room/mnt/set" >/dev/null
    { grep '^#' "$room/mnt/set/trace.tsv"; grep -v '^#' "$room/mnt/set/trace.tsv" | shuf --random-source=<(yes); } >"$room/$kib.trace"
    detach
}

# attach FILE [OPTION [COMMAND...]]: the disk in FILE at $room/mnt; COMMAND goes where FILE is. What is read from it is not
# kept a second time, for FILE.
attach() {
    local file=$1 option=${2:-}
    shift $(($# < 2 ? $# : 2))
    loop=$("$@" losetup -f --show --direct-io=on "$file")
    [ "$(losetup -n -O DIO "$loop" | tr -d ' ')" = 1 ] || { echo "$file cannot be read directly: let ROOM be on a disk" >&2; exit 1; }
    mkdir -p "$room/mnt"
    mount -o "noatime${option:+,$option}" "$loop" "$room/mnt"
}

# attach_slow KIB MILLISECONDS READS-A-SECOND [OPTION]: an image on a disk on which each read takes a time, or that makes only so many.
# The file that stands for the disk is seen by nobody else: servers are to meet an ext4, and no FUSE.
attach_slow() {
    local _
    mkdir -p "$room/fuse"
    unshare -m "$helpers/slow_disk" "$room/fuse" "$room/$1.img" "$2" "$3" &
    disk=$!
    for _ in $(seq 100); do
        nsenter -m -t "$disk" test -e "$room/fuse/disk" && break
        sleep 0.05
    done
    attach "$room/fuse/disk" "${4:-}" nsenter -m -t "$disk"
}

# The file system goes first, then its disk.
detach() {
    ! mountpoint -q "$room/mnt" || umount "$room/mnt"
    [ -z "$loop" ] || losetup -d "$loop"
    loop=
    [ -z "$disk" ] || { kill "$disk" && wait "$disk"; } 2>/dev/null || true
    disk=
}

# MiB read from the attached disk so far.
read_so_far() { if [ -z "$loop" ]; then echo 0; else awk '{ print int($3 / 2048) }' "/sys/block/${loop#/dev/}/stat"; fi; }

# Nothing of any file, name or inode is in memory then, unless it is in use.
drop_caches() {
    sync
    echo 3 >/proc/sys/vm/drop_caches
}
