#!/usr/bin/env bash
# `laio serve` beside nginx and lighttpd, all with one worker on one processor, the client on the other, in
# interleaved rounds: requests a second, processor time of the server for each request (/proc), p50 and p99.
#
#   benches/serve.sh [CASE...]
#
# Cases: warm close cold slow limited idle (default: warm close idle cold). All but the first three need root: they mount file
# systems and drop caches.
#
# Settings, by the environment:
#   LAIO     the command to measure       (default: target/release/laio)
#   ROUNDS   rounds, of which the median  (default: 5)
#   SECONDS_EACH  of each measurement     (default: 3)
#   SERVERS  which of: laio nginx nginx-threads lighttpd, and where it is cold nginx-8 nginx-32
#   FILES    files of the cold cases      (default: 20000)
#   ROOM     where to put files, on a disk (default: a temporary directory)
#
# Needs wrk, and nginx and lighttpd as far as they are to be measured.
set -euo pipefail
cd "$(dirname "$0")/.."

laio=${LAIO:-target/release/laio}
rounds=${ROUNDS:-5}
seconds=${SECONDS_EACH:-3}
files=${FILES:-20000}
cases=${*:-warm close idle cold}
room=${ROOM:-$(mktemp -d)}
mkdir -p "$room"
tick=$(getconf CLK_TCK)
started=()
mounted=()

finish() {
    for pid in "${started[@]}"; do kill "$pid" 2>/dev/null || true; done
    wait 2>/dev/null || true
    for ((at = ${#mounted[@]} - 1; at >= 0; at--)); do umount "${mounted[at]}" || true; done
    rm -rf "$room"
}
trap finish EXIT

# name -> process ids and port
declare -A pids=() ports=()

# start NAME ROOT: each server on processor 0
start() {
    local name=$1 root=$2 port=$((18100 + ${#ports[@]}))
    while (exec 3<>"/dev/tcp/127.0.0.1/$port") 2>/dev/null; do port=$((port + 10)); done
    ports[$name]=$port
    case $name in
    laio)
        taskset -c 0 "$laio" serve "$root" --listen "127.0.0.1:$port" --workers 1 --log off --max-connections 20000 \
            --max-requests 4000000000 2>/dev/null &
        ;;
    laio-no-cache)
        taskset -c 0 "$laio" serve "$root" --listen "127.0.0.1:$port" --workers 1 --log off --no-cache \
            --max-connections 20000 --max-requests 4000000000 2>/dev/null &
        ;;
    nginx*)
        local workers=1 aio=
        case $name in
        nginx-threads) aio="aio threads;" ;;
        nginx-[0-9]*) workers=${name#nginx-} ;;
        esac
        cat >"$room/$name.conf" <<END
worker_processes $workers; daemon off; pid $room/$name.pid; error_log $room/$name.err; worker_rlimit_nofile 100000; user root;
events { worker_connections 20000; }
http {
    access_log off; sendfile on; tcp_nopush on; $aio default_type application/octet-stream;
    open_file_cache max=100000 inactive=60s; keepalive_requests 1000000000; keepalive_timeout 300;
    server { listen 127.0.0.1:$port backlog=1024; root $root; }
}
END
        taskset -c 0 nginx -c "$room/$name.conf" -p "$room" 2>/dev/null &
        ;;
    lighttpd)
        cat >"$room/$name.conf" <<END
server.document-root = "$root"
server.port = $port
server.bind = "127.0.0.1"
server.max-keep-alive-requests = 1000000000
server.max-keep-alive-idle = 300
server.max-fds = 65536
server.max-connections = 20000
END
        taskset -c 0 lighttpd -D -f "$room/$name.conf" 2>/dev/null &
        ;;
    esac
    started+=($!)
    for _ in $(seq 100); do
        (exec 3<>"/dev/tcp/127.0.0.1/$port") 2>/dev/null && break
        sleep 0.05
    done
    # A server of one process has none.
    pids[$name]="$! $(pgrep -P $! | tr '\n' ' ' || true)"
}

stop() {
    local name
    for name in "${!pids[@]}"; do
        kill ${pids[$name]%% *} 2>/dev/null || true
        wait ${pids[$name]%% *} 2>/dev/null || true
    done
    pids=() ports=()
}

# Hundredths of seconds that a server has computed so far.
computed() { for pid in ${pids[$1]}; do cat "/proc/$pid/stat" 2>/dev/null; done | awk '{ sum += $14 + $15 } END { print sum + 0 }'; }

# of_wrk CASE NAME PATH CONNECTIONS [HEADER]: a line "case name rate cpu-us p50 p99"
of_wrk() {
    local label=$1 name=$2 path=$3 connections=$4 header=${5:-"Accept: */*"} before after
    before=$(computed "$name")
    taskset -c 1 wrk -t1 -c"$connections" -d"${seconds}s" --timeout 30s --latency -H "$header" \
        "http://127.0.0.1:${ports[$name]}/$path" >"$room/wrk.out"
    after=$(computed "$name")
    awk -v label="$label" -v name="$name" -v ticks=$((after - before)) -v tick="$tick" '
        function ms(text) { return text ~ /us$/ ? text / 1000 : text ~ /ms$/ ? text + 0 : text * 1000 }
        $1 == "50%" { p50 = ms($2) } $1 == "99%" { p99 = ms($2) }
        /requests in/ { count = $1; time = $4 + 0 }
        END { if (count) print label, name, count / time, ticks / tick / count * 1e6, p50, p99 }' "$room/wrk.out" >>"$room/lines"
}

# of_load CASE NAME ARGUMENTS: the same with `laio load`
of_load() {
    local label=$1 name=$2 before after
    shift 2
    before=$(computed "$name")
    taskset -c 1 "$laio" load "http://127.0.0.1:${ports[$name]}/" --no-verify --json "$room/load.json" "$@" >/dev/null
    after=$(computed "$name")
    tr ',{}' '\n\n\n' <"$room/load.json" >"$room/load.fields"
    awk -v label="$label" -v name="$name" -v ticks=$((after - before)) -v tick="$tick" -F': *' '
        { gsub(/[" ]/, "", $1) }
        $1 == "seconds" && !time { time = $2 } $1 == "completed" && !count { count = $2 }
        $1 == "p50" && p50 == "" { p50 = $2 } $1 == "p99" && p99 == "" { p99 = $2 }
        END { if (count && time) print label, name, count / time, ticks / tick / count * 1e6, p50, p99 }' \
        "$room/load.fields" >>"$room/lines"
}

# The medians of all rounds, by case and server.
report() {
    printf '%-18s %-14s %10s %12s %9s %9s\n' case server requests/s cpu-us/req p50-ms p99-ms
    sort -k1,1 -k2,2 "$room/lines" | awk '
        function median(list,   n, i, j, t, v) {
            n = split(list, v, " ")
            for (i = 2; i <= n; i++) for (j = i; j > 1 && v[j] + 0 < v[j-1] + 0; j--) { t = v[j]; v[j] = v[j-1]; v[j-1] = t }
            return n % 2 ? v[(n+1)/2] : (v[n/2] + v[n/2+1]) / 2
        }
        { key = $1 " " $2; if (!(key in seen)) { seen[key] = 1; order[++keys] = key }
          for (i = 3; i <= 6; i++) all[key, i] = all[key, i] " " $i }
        END { for (k = 1; k <= keys; k++) { split(order[k], part, " ")
          printf "%-18s %-14s %10.0f %12.2f %9.2f %9.2f\n", part[1], part[2], median(all[order[k], 3]), median(all[order[k], 4]), median(all[order[k], 5]), median(all[order[k], 6]) } }'
    : >"$room/lines"
}

installed() {
    local name
    for name in "$@"; do
        command -v "$(case $name in laio*) echo "$laio" ;; nginx*) echo nginx ;; *) echo "$name" ;; esac)" >/dev/null && echo "$name"
    done
    return 0
}

warm() {
    mkdir -p "$room/warm"
    local size name round servers
    for size in 1 10 100 1024 10240; do head -c $((size * 1024)) /dev/urandom >"$room/warm/$size"; done
    servers=$(installed ${SERVERS:-laio nginx lighttpd})
    for name in $servers; do start "$name" "$room/warm"; done
    for round in $(seq "$rounds"); do
        for size in $1; do for name in $servers; do
            if [ "$2" = close ]; then of_wrk "close-${size}K" "$name" "$size" 64 "Connection: close"
            else of_wrk "warm-${size}K" "$name" "$size" 64; fi
        done; done
    done
    stop
    report
}

# The server's memory for each of many connections that wait, and what the others get meanwhile.
idle() {
    mkdir -p "$room/warm"
    head -c 1024 /dev/urandom >"$room/warm/1"
    ulimit -n 65536
    local name round servers before after
    servers=$(installed ${SERVERS:-laio nginx lighttpd})
    for name in $servers; do start "$name" "$room/warm"; done
    for name in $servers; do
        for round in $(seq "$rounds"); do of_wrk idle-without "$name" 1 64; done
        before=$(resident "$name")
        wait_on "$name" 10000
        after=$(resident "$name")
        echo "$name: $(((after - before) * 1024 / 10000)) bytes resident for each of 10,000 idle connections"
        for round in $(seq "$rounds"); do of_wrk idle-with "$name" 1 64; done
        kill "$waiting" && wait "$waiting" 2>/dev/null || true
    done
    stop
    report
}

resident() { for pid in ${pids[$1]}; do awk '/^VmRSS/ { print $2 }' "/proc/$pid/status"; done | awk '{ sum += $1 } END { print sum }'; }

# wait_on NAME COUNT: connections that have had an answer and wait, by a process `waiting`
wait_on() {
    # Each connection asks once, and then pauses for longer than this takes.
    cat >"$room/wait.lua" <<END
local asked = 0
function delay()
    asked = asked + 1
    if asked <= $2 then return 0 end
    return 3600000
end
END
    taskset -c 1 wrk -t1 -c"$2" -d600s --timeout 600s -s "$room/wait.lua" "http://127.0.0.1:${ports[$1]}/1" >/dev/null 2>&1 &
    waiting=$!
    started+=($waiting)
    sleep 6
}

# make_disk FILE MEGABYTES MOUNT: an ext4 in a file
make_disk() {
    truncate -s "$2M" "$1"
    mkfs.ext4 -q -F -E lazy_itable_init=0,lazy_journal_init=0 "$1"
    mkdir -p "$3"
}

fill() {
    local root=$1 bytes=$2 number
    mkdir -p "$root"
    head -c "$bytes" /dev/urandom >"$room/pattern"
    for number in $(seq 0 $((files - 1))); do
        [ $((number % 100)) = 0 ] && mkdir -p "$root/$((number / 100))"
        echo "$root/$((number / 100))/$((number % 100))"
    done | xargs -n 200 sh -c 'for name; do cp "$0" "$name"; done' "$room/pattern"
    {
        echo "# laio trace 1"
        for number in $(seq 0 $((files - 1))); do printf -- '-\t200\t%d\t/%d/%d\n' "$bytes" $((number / 100)) $((number % 100)); done | shuf --random-source=<(yes)
    } >"$room/trace-$bytes"
}

# Each file once, with nothing of it in memory.
cold() {
    local size=$1 label=$2 disk=$3 name round servers
    servers=$(installed ${SERVERS:-laio nginx nginx-threads nginx-8})
    for round in $(seq "$rounds"); do
        for name in $servers; do
            start "$name" "$disk"
            sync
            echo 3 >/proc/sys/vm/drop_caches
            of_load "$label" "$name" --trace "$room/trace-$size" --clients 100 --keep-alive
            stop
        done
    done
    report
}

cold_files() {
    local size
    for size in 102400 4096; do
        make_disk "$room/disk" $((files * (size + 8192) / 1000000 + 400)) "$room/mnt"
        mount -o loop,noatime "$room/disk" "$room/mnt" && mounted+=("$room/mnt")
        fill "$room/mnt" "$size"
        cold "$size" "cold-$((size / 1024))K" "$room/mnt"
        umount "$room/mnt"
        unset 'mounted[-1]'
    done
}

# slow MILLISECONDS READS-A-SECOND: a disk that takes a time for each read
slow_disk() {
    cargo build -q --release -p laio-testing --example slow_disk
    make_disk "$room/disk" $((files * 110 / 1000 + 400)) "$room/mnt"
    mount -o loop,noatime "$room/disk" "$room/mnt"
    fill "$room/mnt" 102400
    umount "$room/mnt"
    mkdir -p "$room/fuse"
    target/release/examples/slow_disk "$room/fuse" "$room/disk" "$1" "$2" &
    started+=($!)
    sleep 1
    mounted+=("$room/fuse")
    loop=$(losetup -f --show --direct-io=on "$room/fuse/disk")
    mount -o noatime "$loop" "$room/mnt" && mounted+=("$room/mnt")
}

: >"$room/lines"
for case in $cases; do
    case $case in
    warm) warm "1 10 100 1024 10240" warm ;;
    close) warm 1 close ;;
    idle) idle ;;
    cold) cold_files ;;
    slow)
        slow_disk 2 0
        SERVERS=${SERVERS:-laio nginx nginx-threads nginx-32} cold 102400 slow-2ms "$room/mnt"
        umount "$room/mnt"
        losetup -d "$loop"
        unset 'mounted[-1]'
        ;;
    *) echo "no case is called $case" >&2; exit 2 ;;
    esac
done
