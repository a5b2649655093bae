# shellcheck shell=bash
# Disks in files: each image is created once, and attached for each case, directly or as a slow disk.

# The loop device, and the process of a slow disk.
loop='' disk=''

# image KIB: creates $workdir/KIB.img, an ext4 with $files files of this size, and $workdir/KIB.trace, which
# requests each of them once in random order
image() {
    local kib=$1 image=$workdir/$1.img
    [ -e "$image" ] && return
    truncate -s $((files * (kib + 4) / 930 + 150))M "$image"
    mkfs.ext4 -q -F -m 0 -N $((files * 11 / 10 + 1000)) -E lazy_itable_init=0,lazy_journal_init=0 "$image"
    attach "$image"
    files_of "$kib"
    detach
}

# files_of KIB: creates $files files of this size in $workdir/mnt/set, and $workdir/KIB.trace
files_of() {
    local kib=$1
    echo "making $files files of $kib KiB" >&2
    awk -v files="$files" -v bytes=$((kib * 1024)) 'BEGIN { for (n = 0; n < files; n++)
        printf "- - - [22/Nov/2026:00:00:00 +0000] \"GET /d%03d/f%02d HTTP/1.1\" 200 %d\n", n / 100, n % 100, bytes }' >"$workdir/log"
    "$laio" trace import "$workdir/log" --to "$workdir/mnt/set" >/dev/null
    { grep '^#' "$workdir/mnt/set/trace.tsv"; grep -v '^#' "$workdir/mnt/set/trace.tsv" | shuf --random-source=<(yes); } >"$workdir/$kib.trace"
}

# attach FILE [OPTION [COMMAND...]]: mounts the disk in FILE at $workdir/mnt; COMMAND runs in FILE's directory.
# Direct I/O avoids caching FILE's data twice.
attach() {
    local file=$1 option=${2:-}
    shift $(($# < 2 ? $# : 2))
    loop=$("$@" losetup -f --show --direct-io=on "$file")
    [ "$(losetup -n -O DIO "$loop" | tr -d ' ')" = 1 ] || { echo "$file cannot be read directly: let ROOM be on a disk" >&2; exit 1; }
    mkdir -p "$workdir/mnt"
    mount -o "noatime${option:+,$option}" "$loop" "$workdir/mnt"
}

# attach_slow KIB MILLISECONDS READS-A-SECOND [OPTION]: mounts an image on a disk whose reads take this time,
# or are limited to this rate. Only the loop device uses the FUSE file: servers see an ext4, not FUSE.
attach_slow() {
    local _
    mkdir -p "$workdir/fuse"
    unshare -m "$helpers/slow_disk" "$workdir/fuse" "$workdir/$1.img" "$2" "$3" &
    disk=$!
    for _ in $(seq 100); do
        nsenter -m -t "$disk" test -e "$workdir/fuse/disk" && break
        sleep 0.05
    done
    attach "$workdir/fuse/disk" "${4:-}" nsenter -m -t "$disk"
}

# The file system is unmounted first, then its disk.
detach() {
    ! mountpoint -q "$workdir/mnt" || umount "$workdir/mnt"
    [ -z "$loop" ] || losetup -d "$loop"
    loop=
    [ -z "$disk" ] || { kill "$disk" && wait "$disk"; } 2>/dev/null || true
    disk=
}

# Prints the MiB read so far from the attached disk, or from that of $workdir.
read_so_far() {
    local number
    number=$(mountpoint -d "$(df --output=target "$workdir" | tail -1)") || number=
    if [ -n "$loop" ]; then awk '{ print int($3 / 2048) }' "/sys/block/${loop#/dev/}/stat"
    elif [ -r "/sys/dev/block/$number/stat" ]; then awk '{ print int($3 / 2048) }' "/sys/dev/block/$number/stat"
    else echo 0; fi
}

# Takes as much memory as the files of a case need and gives it back: on a virtual machine that returns free pages
# to its host, the first use of a page takes longer than the server needs to send it.
touch_memory() {
    local need
    need=$(du -sm "$workdir/mnt/set" | cut -f1)
    dd if=/dev/zero of=/dev/shm/touched-$$ bs=1M count=$((need * 11 / 10 + 200)) status=none || true
    rm -f /dev/shm/touched-$$
}

# Drops all cached pages, dentries and inodes that are not in use.
drop_caches() {
    sync
    echo 3 >/proc/sys/vm/drop_caches
}
