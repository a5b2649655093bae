# shellcheck shell=bash
# The servers: started on processor 0, looked at, and stopped.

started=()
# name -> process ids, the first of which is to be ended; and port
declare -A pids=() ports=()

# start NAME ROOT [SECONDS]: a server, with so many seconds of patience with slow clients instead of the usual
start() {
    local name=$1 root=$2 patience=${3:-} port=$((18100 + ${#ports[@]})) workers=1 _
    while (exec 3<>"/dev/tcp/127.0.0.1/$port") 2>/dev/null; do port=$((port + 10)); done
    ports[$name]=$port
    case $name in
    laio*) start_laio "$@" ;;
    nginx*) start_nginx "$@" ;;
    lighttpd) start_lighttpd "$@" ;;
    *) echo "no server is called $name" >&2; exit 2 ;;
    esac
    pids[$name]=$!
    started+=($!)
    for _ in $(seq 200); do
        (exec 3<>"/dev/tcp/127.0.0.1/$port") 2>/dev/null && { [[ $name != nginx* ]] || has_workers; } && break
        sleep 0.05
    done
    pids[$name]+=" $(pgrep -P "${pids[$name]}" | tr '\n' ' ' || true)"
}

has_workers() { [ "$(pgrep -c -P "${pids[$name]}")" -ge "$workers" ]; }

start_laio() {
    local own=(--max-connections 20000 --max-requests 4000000000)
    [ "$name" = laio-no-cache ] && own+=(--no-cache)
    # How long a client may take for 128 KiB is not less than what the rate gives it.
    [ -n "$patience" ] && own=(--header-timeout "$patience" --body-timeout "$patience" --write-timeout "$patience"
        --min-write-rate 65536 --linger-timeout "$patience")
    taskset -c 0 "$laio" serve "$root" --listen "127.0.0.1:$port" --workers 1 --log off "${own[@]}" 2>"$room/$name.err" &
}

start_nginx() {
    local aio='' times=''
    case $name in
    nginx-threads) aio="aio threads;" ;;
    nginx-[0-9]*) workers=${name#nginx-} ;;
    esac
    [ -n "$patience" ] &&
        times="client_header_timeout $patience; client_body_timeout $patience; send_timeout $patience; lingering_timeout $patience;"
    cat >"$room/$name.conf" <<END
worker_processes $workers; daemon off; pid $room/$name.pid; error_log $room/$name.err; worker_rlimit_nofile $(ulimit -n); user root;
events { worker_connections 16000; }
http {
    access_log off; sendfile on; tcp_nopush on; $aio $times default_type application/octet-stream;
    open_file_cache max=100000 inactive=60s; keepalive_requests 1000000000; keepalive_timeout 300;
    server { listen 127.0.0.1:$port backlog=4096; root $root; }
}
END
    taskset -c 0 nginx -c "$room/$name.conf" -p "$room" 2>/dev/null &
}

start_lighttpd() {
    cat >"$room/$name.conf" <<END
server.document-root = "$root"
server.port = $port
server.bind = "127.0.0.1"
server.listen-backlog = 4096
server.max-keep-alive-requests = 1000000000
server.max-keep-alive-idle = 300
server.max-fds = $(ulimit -n)
server.max-connections = 16000
END
    [ -n "$patience" ] && printf 'server.max-read-idle = %d\nserver.max-write-idle = %d\n' "$patience" "$patience" >>"$room/$name.conf"
    taskset -c 0 lighttpd -D -f "$room/$name.conf" 2>/dev/null &
}

stop() {
    local name
    for name in "${!pids[@]}"; do
        kill "${pids[$name]%% *}" 2>/dev/null || true
        wait "${pids[$name]%% *}" 2>/dev/null || true
    done
    pids=() ports=()
}

# Ticks that a server has computed so far.
computed() { for pid in ${pids[$1]}; do cat "/proc/$pid/stat" 2>/dev/null; done | awk '{ sum += $14 + $15 } END { print sum + 0 }'; }

# KiB of memory that a server has.
resident() { for pid in ${pids[$1]}; do awk '/^VmRSS/ { print $2 }' "/proc/$pid/status"; done | awk '{ sum += $1 } END { print sum }'; }

# Sockets that a server has open.
sockets() { for pid in ${pids[$1]}; do find "/proc/$pid/fd" -lname 'socket:*' 2>/dev/null || true; done | wc -l; }

# Those of the servers, or of $SERVERS instead, that are installed.
installed() {
    local name
    for name in ${SERVERS:-"$@"}; do
        command -v "$(case $name in laio*) echo "$laio" ;; nginx*) echo nginx ;; *) echo "$name" ;; esac)" >/dev/null && echo "$name"
    done
    return 0
}
