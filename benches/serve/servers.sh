# shellcheck shell=bash
# Starts the servers on processor 0, measures and stops them.

started=()
# https while servers encrypt, with the certificate of `certificate`
scheme=http
# name -> process ids, of which the first is signalled to stop; and port
declare -A pids=() ports=()

# start NAME ROOT [SECONDS]: starts a server, with time-outs of SECONDS for slow clients instead of the
# default
start() {
    local name=$1 root=$2 timeout=${3:-} port=$((18100 + ${#ports[@]})) workers=1 _
    while (exec 3<>"/dev/tcp/127.0.0.1/$port") 2>/dev/null; do port=$((port + 10)); done
    ports[$name]=$port
    case $name in
    bare) start_bare "$@" ;;
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
    # The time-out for 128 KiB is not lower than the time at the minimum rate.
    [ -n "$timeout" ] && own=(--header-timeout "$timeout" --body-timeout "$timeout" --write-timeout "$timeout"
        --min-write-rate 65536 --linger-timeout "$timeout")
    local address=127.0.0.1:$port
    [ $scheme = http ] || { address=tls:$address; own+=(--tls-cert "$workdir/cert.pem" --tls-key "$workdir/key.pem"); }
    taskset -c 0 "$laio" serve "$root" --listen "$address" --workers 1 --log off "${own[@]}" 2>"$workdir/$name.err" &
}

# Not a web server: what plain system calls cost at least.
start_bare() {
    cc -O2 -o "$workdir/bare" benches/serve/bare.c
    taskset -c 0 "$workdir/bare" "$port" "$root" &
}

start_nginx() {
    local cache='open_file_cache max=100000 inactive=60s;' aio='' times='' encrypted='' ssl=''
    case $name in
    # The cache of open files costs it time where each file is requested once.
    nginx-threads) aio="aio threads;" cache='' ;;
    nginx-[0-9]*) workers=${name#nginx-} ;;
    esac
    [ -n "$timeout" ] &&
        times="client_header_timeout $timeout; client_body_timeout $timeout; send_timeout $timeout; lingering_timeout $timeout;"
    [ $scheme = http ] || {
        ssl=ssl
        encrypted="ssl_certificate $workdir/cert.pem; ssl_certificate_key $workdir/key.pem; ssl_protocols TLSv1.3;"
    }
    cat >"$workdir/$name.conf" <<END
worker_processes $workers; daemon off; pid $workdir/$name.pid; error_log $workdir/$name.err; worker_rlimit_nofile $(ulimit -n); user root;
events { worker_connections 16000; }
http {
    access_log off; sendfile on; tcp_nopush on; $aio $times default_type application/octet-stream;
    $cache keepalive_requests 1000000000; keepalive_timeout 300;
    server { listen 127.0.0.1:$port $ssl backlog=4096; root $root; $encrypted }
}
END
    taskset -c 0 nginx -c "$workdir/$name.conf" -p "$workdir" 2>/dev/null &
}

# Creates the certificate of the encrypted cases: ECDSA with P-256.
certificate() {
    openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj /CN=localhost \
        -addext 'subjectAltName=DNS:localhost,IP:127.0.0.1' -keyout "$workdir/key.pem" -out "$workdir/cert.pem" 2>/dev/null
}

start_lighttpd() {
    cat >"$workdir/$name.conf" <<END
server.document-root = "$root"
server.port = $port
server.bind = "127.0.0.1"
server.listen-backlog = 4096
server.max-keep-alive-requests = 1000000000
server.max-keep-alive-idle = 300
server.max-fds = $(ulimit -n)
server.max-connections = 16000
END
    [ -n "$timeout" ] && printf 'server.max-read-idle = %d\nserver.max-write-idle = %d\n' "$timeout" "$timeout" >>"$workdir/$name.conf"
    taskset -c 0 lighttpd -D -f "$workdir/$name.conf" 2>/dev/null &
}

stop() {
    local name
    for name in "${!pids[@]}"; do
        kill "${pids[$name]%% *}" 2>/dev/null || true
        wait "${pids[$name]%% *}" 2>/dev/null || true
    done
    pids=() ports=()
}

# Prints the ticks that a server has used so far.
computed() { for pid in ${pids[$1]}; do cat "/proc/$pid/stat" 2>/dev/null; done | awk '{ sum += $14 + $15 } END { print sum + 0 }'; }

# Prints the resident memory of a server in KiB.
resident() { for pid in ${pids[$1]}; do awk '/^VmRSS/ { print $2 }' "/proc/$pid/status"; done | awk '{ sum += $1 } END { print sum }'; }

# Prints the number of open sockets of a server.
sockets() { for pid in ${pids[$1]}; do find "/proc/$pid/fd" -lname 'socket:*' 2>/dev/null || true; done | wc -l; }

# Prints which of the servers, or of $SERVERS instead, are installed.
installed() {
    local name
    for name in ${SERVERS:-"$@"}; do
        command -v "$(case $name in laio*) echo "$laio" ;; bare) echo cc ;; nginx*) echo nginx ;; *) echo "$name" ;; esac)" >/dev/null && echo "$name"
    done
    return 0
}
