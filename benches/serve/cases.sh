# shellcheck shell=bash
# The cases.

# Creates a file of each size in KiB in $workdir/warm, named after the size.
warm_files() {
    local size
    mkdir -p "$workdir/warm"
    for size in "$@"; do head -c $((size * 1024)) /dev/urandom >"$workdir/warm/$size"; done
}

# Creates a set of files of each size in KiB in $workdir/warm: 64, and at most 320 MiB, so that they are not all
# in the caches of a processor. Their names are in $workdir/KIB.paths.
warm_sets() {
    local size number
    mkdir -p "$workdir/warm"
    for size in "$@"; do
        for number in $(seq $((327680 / size < 64 ? 327680 / size : 64))); do
            head -c $((size * 1024)) /dev/urandom >"$workdir/warm/$size-$number"
            echo "/$size-$number"
        done | LC_ALL=C sort >"$workdir/$size.paths"
    done
}

# in_memory CASE KIB...
in_memory() {
    local case=$1 round name size servers header="Accept: */*" bare=bare
    shift
    warm_sets "$@"
    [ "$case" = close ] && header="Connection: close" bare=
    # shellcheck disable=SC2086
    servers=$(installed $bare laio nginx lighttpd)
    for name in $servers; do start "$name" "$workdir/warm"; done
    for round in $(seq "$rounds"); do
        for size in "$@"; do for name in $servers; do
            PATHS=$workdir/$size.paths of_wrk "$case-${size}K" "$name" "$size" 64 "$header"
        done; done
    done
    stop
}

# Kept connections as in `warm`, and a new connection for each request: with a full handshake, or one that resumes
# the session of an earlier connection.
tls() {
    local round name size servers
    warm_files 1 1024
    printf '# laio trace 1\n-\t200\t1024\t/1\n' >"$workdir/one.trace"
    certificate
    scheme=https
    servers=$(installed laio nginx)
    for name in $servers; do start "$name" "$workdir/warm"; done
    for name in $servers; do negotiated "$name"; done
    for round in $(seq "$rounds"); do
        for size in 1 1024; do for name in $servers; do of_wrk "tls-${size}K" "$name" "$size" 64; done; done
        for name in $servers; do of_load tls-new "$name" --trace "$workdir/one.trace" --clients 64 --close --insecure --seconds "$seconds"; done
        for name in $servers; do of_load tls-resumed "$name" --trace "$workdir/one.trace" --clients 64 --close --insecure --resume --seconds "$seconds"; done
    done
    stop
    scheme=http
}

# negotiated SERVER: prints what a client like wrk and a server agree on
negotiated() {
    openssl s_client -connect "127.0.0.1:${ports[$1]}" </dev/null 2>/dev/null |
        awk -v name="$1" '/^New, / { gsub(/,/, ""); version = $2; cipher = $NF } /^Server Temp Key/ { key = $4 }
            /^Peer signature type/ { signature = $NF } END { sub(/,/, "", key); print name ": " version, cipher, key, signature }'
}

# hold NAME SECONDS KIND=COUNT...: opens connections of misbehaving clients, in the process `$holder`
hold() {
    local name=$1 time=$2 _
    shift 2
    "$helpers/bad_clients" "127.0.0.1:${ports[$name]}" /10240 "$time" "$@" >"$workdir/held" 2>&1 &
    holder=$!
    started+=("$holder")
    for _ in $(seq 600); do
        grep -q ready "$workdir/held" && return
        kill -0 "$holder" 2>/dev/null || break
        sleep 0.1
    done
    echo "$name: connections could not be made: $(cat "$workdir/held")" >&2
    exit 1
}

idle() {
    local name round servers before held=10000
    warm_files 1
    # An idle connection has had a response.
    cp "$workdir/warm/1" "$workdir/warm/10240"
    servers=$(installed laio nginx lighttpd)
    if [ "$(ulimit -n)" -lt 20200 ] && [[ $servers == *lighttpd* ]]; then
        echo "lighttpd is left out: it takes half as many connections as it may have descriptors, $(ulimit -n)"
        servers=${servers//lighttpd/}
    fi
    for name in $servers; do start "$name" "$workdir/warm"; done
    for round in $(seq "$rounds"); do
        for name in $servers; do
            of_wrk idle-without "$name" 1 64
            before=$(resident "$name")
            hold "$name" 3600 idle=$held
            # laio takes the buffer of an idle connection back after a second.
            sleep 2
            # In later rounds the server reuses memory that it has freed.
            [ "$round" != 1 ] || echo "$name: $((($(resident "$name") - before) * 1024 / held)) bytes resident for each of $held connections that wait"
            of_wrk idle-with "$name" 1 64
            kill "$holder"
            wait "$holder" 2>/dev/null || true
            until [ "$(sockets "$name")" -lt 1000 ]; do sleep 0.1; done
        done
    done
    stop
}

# All servers are configured with time-outs of 3 seconds.
attack() {
    local name round before left time=12
    warm_files 1 10240
    printf '# laio trace 1\n-\t200\t1024\t/1\n' >"$workdir/one.trace"
    for round in $(seq "$rounds"); do
        for name in $(installed laio nginx lighttpd); do
            start "$name" "$workdir/warm" 3
            of_load attack-without "$name" --trace "$workdir/one.trace" --rate 1000 --seconds 3
            before=$(sockets "$name")
            hold "$name" $time slow-head=400 slow-body=300 slow-read=300
            of_load attack-with "$name" --trace "$workdir/one.trace" --rate 1000 --seconds $((time - 2))
            left=$(($(sockets "$name") - before))
            wait "$holder" || true
            [ "$round" != 1 ] || sed -n "/ready/!s/^/$name: /p; \$a$name: has $left of 1000 sockets left" "$workdir/held"
            stop
        done
    done
}

# each_once CASE KIB SECONDS SERVER...: requests each file once over 100 connections, until all are read or
# the time is over
each_once() {
    local case=$1 trace=$workdir/$2.trace time=$3 name round
    shift 3
    for round in $(seq "$rounds"); do
        for name in $(installed "$@"); do
            start "$name" "$workdir/mnt/set/files"
            drop_caches
            touch_memory
            of_load "$case" "$name" --trace "$trace" --clients 100 --seconds "$time"
            stop
        done
    done
}

# The same with the congestion control that paces: it costs those that send a response in several pieces more.
bbr() {
    sysctl -q net.ipv4.tcp_congestion_control=bbr || return 0
    in_memory bbr 100 1024
    sysctl -q net.ipv4.tcp_congestion_control=cubic
}

# Files on the disk of $ROOM itself.
cold() {
    local kib
    for kib in 100 4; do
        mkdir -p "$workdir/mnt"
        files_of "$kib"
        each_once cold-${kib}K $kib 600 laio nginx nginx-threads nginx-8 lighttpd
        rm -rf "$workdir/mnt/set"
    done
}

loop() {
    local kib
    for kib in 100 4; do
        image $kib
        attach "$workdir/$kib.img"
        each_once loop-${kib}K $kib 600 laio nginx nginx-threads nginx-8
        detach
    done
}

# nginx needs 45 s for 20,000 files on this disk, and has 6 s.
slow() {
    local kib
    for kib in 100 4; do
        image "$kib"
        attach_slow "$kib" 2 0
        each_once "slow-${kib}K" "$kib" 6 laio nginx nginx-threads nginx-32
        detach
    done
}

# Nine of ten requests are for a hundred files, the others for a new file each. All are cold at first.
limited() {
    local rate=4000 time=6 name round
    image 4
    [ $((files - 100)) -ge $((rate * time / 10)) ] || { echo "limited takes $((rate * time / 10 + 100)) FILES" >&2; exit 2; }
    grep -v '^#' "$workdir/4.trace" | awk -F'\t' -v OFS='\t' -v all=$((rate * time)) '
        BEGIN { print "# laio trace 1"; print "# name: limited"; srand(1) }
        $4 ~ "^/d000/" { hot[hots++] = $0; next } { cold[colds++] = $0 }
        END { for (n = 0; n < all; n++) print n % 10 ? hot[int(rand() * hots)] : cold[int(n / 10)] }' >"$workdir/limited.trace"
    # Inodes are read one block at a time, so they are as cold as the data.
    attach_slow 4 0 500 inode_readahead_blks=0
    for round in $(seq "$rounds"); do
        for name in $(installed laio nginx nginx-threads lighttpd); do
            start "$name" "$workdir/mnt/set/files"
            drop_caches
            of_load "limited-hot limited-cold" "$name" --trace "$workdir/limited.trace" --rate $rate --seconds $time --warm-up 1
            stop
        done
    done
    detach
}
