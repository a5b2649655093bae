#!/usr/bin/env bash
# SPDX-License-Identifier: MIT OR Apache-2.0
#
# check.sh - runs the built examples as a user would, and checks their results.
#
#     check.sh DIR [EXAMPLE]...
#
# DIR contains the built programs, and $CXX_EXAMPLES, if set, further ones; without names it runs all of them, including
# those of porting/ and loops/. The back end is that of $LAIO_BACKEND. Exit status: 0, 1 after a failure, 77 if none of the requested programs
# can run here. Needs bash and coreutils, and uses find(1) and flock(1) if installed.
set -u
shopt -s globstar dotglob nullglob
export LC_ALL=C

if [ $# -eq 0 ] || [ ! -d "$1" ]; then
	echo "usage: check.sh DIR [EXAMPLE]..." >&2
	exit 1
fi
directory=$(cd "$1" && pwd)
shift
backend=${LAIO_BACKEND:-lazy}
readonly WAIT=400 # twentieths of a second, for steps that take less than one second on an idle machine
scratch=$(mktemp -d)
programs=$scratch/programs
mkdir "$programs"
ln -s "$directory"/* ${CXX_EXAMPLES:+"$CXX_EXAMPLES"/*} "$programs"
failures=0
ran=0

# Kills only jobs that still run: the number of one that has ended may belong to another program by now.
finish() {
	local running
	mapfile -t running < <(jobs -rp)
	[ ${#running[@]} -gt 0 ] && kill -KILL "${running[@]}" 2>/dev/null
	rm -rf "$scratch"
}
trap finish EXIT

wrong() {
	echo "check.sh: $example, $backend: $*" >&2
	failures=$((failures + 1))
}

expect_same() { # WHAT FILE FILE
	cmp -s "$2" "$3" || wrong "$1: $(cmp "$2" "$3" 2>&1)"
}

# ---- Servers ----

root=$scratch/root
mkdir -p "$root/sub/deeper"
printf 'small\n' >"$root/small"
: >"$root/empty"
head -c 262140 /dev/urandom >"$root/chunk" # with its length in front, slightly more than a chunk
head -c 10485760 /dev/urandom >"$root/sub/big"
mkfifo "$root/fifo"
ln -s /etc/passwd "$root/outward"
ln -s sub/big "$root/inward"

# Starts the server, with a descriptor limit if given; sets $pid and $port.
start() { # [DESCRIPTORS]
	local i arguments=(0)
	[ "$example" = server ] || arguments+=("$root") # it serves the current directory
	: >"$scratch/messages"
	(
		cd "$root" && ulimit -n "${1:-$(ulimit -n)}" &&
			exec "$programs/$example" "${arguments[@]}" >>"$scratch/messages" 2>&1
	) &
	pid=$!
	for ((i = 0; i < WAIT; i++)); do
		port=$(sed -n 's/^listening at .*://p' "$scratch/messages")
		[ -n "$port" ] && return 0
		sleep 0.05
	done
	wrong "does not start: $(cat "$scratch/messages")"
	return 1
}

# Ends the server with SIGTERM, which those of porting/ catch. Calls of "sync" are not interrupted, so it may
# need a second signal there.
stop() {
	local status i expected=0
	[ "$example" = server ] && expected=143
	kill -TERM "$pid"
	for ((i = 0; i < WAIT; i++)); do
		kill -0 "$pid" 2>/dev/null || break
		[ "$backend" = sync ] && kill -TERM "$pid" 2>/dev/null
		sleep 0.05
	done
	if kill -0 "$pid" 2>/dev/null; then
		wrong "does not end at SIGTERM"
		kill -KILL "$pid"
	fi
	wait "$pid" 2>/dev/null
	status=$?
	[ "$status" -eq "$expected" ] || [ "$backend $status" = "sync 143" ] || wrong "ends with status $status"
}

# Sends lines and compares the answer, byte for byte.
converse() { # WHAT EXPECTED < LINES
	local socket
	exec {socket}<>"/dev/tcp/127.0.0.1/$port" || { wrong "$1: no connection"; return; }
	cat >&"$socket"
	timeout 60 head -c "$(stat -c %s "$2")" <&"$socket" | cmp -s - "$2" || wrong "$1: another answer"
	exec {socket}>&-
}

slow_reader() { # NUMBER
	local socket left part
	exec {socket}<>"/dev/tcp/127.0.0.1/$port"
	printf 'GET sub/big\n' >&"$socket"
	for ((left = 9 + 10485760; left > 0; left -= part)); do
		part=$((left < 400000 ? left : 400000))
		timeout 60 head -c "$part" <&"$socket"
		sleep 0.01
	done >"$scratch/slow$1"
}

check_server() {
	local i socket sockets=() line readers=()
	start || return

	{
		printf 'hello\n6\nsmall\n0\nERR No such file or directory\n'
		for i in 1 2 3 4 5 6; do printf 'ERR Permission denied\n'; done
		printf '262140\n'
		cat "$root/chunk"
		printf '\n10485760\n'
		cat "$root/sub/big"
		printf 'GET\nbye\n'
	} >"$scratch/expected"
	printf '%s\n' hello 'GET small' 'GET empty' 'GET missing' 'GET ../messages' 'GET /etc/passwd' \
		'GET outward' 'GET sub/../../messages' 'GET fifo' 'GET sub/deeper' 'GET chunk' '' \
		'GET inward' GET bye | converse "a conversation" "$scratch/expected"

	printf 'in pieces\n6\nsmall\n' >"$scratch/expected"
	{
		printf 'in '; sleep 0.05; printf 'pieces\nGET '; sleep 0.05; printf 'small'; sleep 0.05; printf '\n'
	} | converse "lines in pieces" "$scratch/expected"

	exec {socket}<>"/dev/tcp/127.0.0.1/$port"
	head -c 5000 /dev/zero | tr '\0' x >&"$socket" 2>/dev/null
	[ "$(timeout 60 head -c 1 <&"$socket" 2>/dev/null | wc -c)" -eq 0 ] || wrong "a line of 5000 bytes is answered"
	exec {socket}>&-

	# Clients that disconnect in the middle of a response.
	for i in 1 2 3 4 5; do
		exec {socket}<>"/dev/tcp/127.0.0.1/$port"
		printf 'GET sub/big\nGET sub/big\n' >&"$socket"
		timeout 60 head -c 1000 <&"$socket" >/dev/null
		exec {socket}>&-
	done

	# Many slow clients at once, and fast ones meanwhile.
	{ printf '10485760\n'; cat "$root/sub/big"; } >"$scratch/expected"
	for i in 1 2 3 4 5 6 7 8; do
		slow_reader "$i" &
		readers+=($!)
	done
	printf 'quick\n6\nsmall\n' >"$scratch/quick"
	for i in 1 2 3; do
		printf 'quick\nGET small\n' | converse "fast clients" "$scratch/quick"
	done
	wait "${readers[@]}"
	for i in 1 2 3 4 5 6 7 8; do
		expect_same "slow reader $i" "$scratch/slow$i" "$scratch/expected"
	done

	# More clients than slots: the last ones are served when the first have left.
	if [ "$backend" != sync ]; then
		for ((i = 0; i < 70; i++)); do
			exec {socket}<>"/dev/tcp/127.0.0.1/$port"
			sockets[i]=$socket
			printf '%d\n' "$i" >&"$socket"
		done
		for ((i = 0; i < 70; i++)); do
			socket=${sockets[i]}
			IFS= read -r -t 60 line <&"$socket" && [ "$line" = "$i" ] || wrong "client $i of 70 is not served"
			exec {socket}>&-
		done
	fi
	stop
}

# A server that runs out of descriptors continues when some are free again.
check_few_descriptors() {
	local i socket sockets=() line
	[ "$backend" = sync ] && return
	start 24 || return
	for ((i = 0; i < 30; i++)); do
		exec {socket}<>"/dev/tcp/127.0.0.1/$port"
		sockets[i]=$socket
		printf '%d\n' "$i" >&"$socket"
	done
	for ((i = 0; i < WAIT; i++)); do
		# In the words of the GNU C library, and of musl.
		grep -qE 'accept: (Too many open files|No file descriptors available)' "$scratch/messages" && break
		sleep 0.05
	done
	[ "$i" -lt "$WAIT" ] || wrong "reports no lack of descriptors"
	for ((i = 0; i < 30; i++)); do
		socket=${sockets[i]}
		IFS= read -r -t 60 line <&"$socket" && [ "$line" = "$i" ] || wrong "client $i of 30 is not served"
		exec {socket}>&-
	done
	stop
}

# ---- The others ----

tree=$scratch/tree
make_tree() {
	local i
	mkdir -p "$tree/a/b/c/d" "$tree/empty" "$tree/many"
	for ((i = 0; i < 700; i++)); do
		printf '%*s' "$i" '' >"$tree/many/a rather long name, so that they fill more than one buffer $i"
	done
	for ((i = 0; i < 40; i++)); do
		mkdir -p "$tree/wide/$i"
		seq "$i" >"$tree/wide/$i/lines"
	done
	truncate -s 5G "$tree/a/b/c/d/sparse"
	ln -s ../many "$tree/a/link"
	ln -s nowhere "$tree/a/dangling"
	ln "$tree/wide/39/lines" "$tree/a/b/second name"
	mkfifo "$tree/a/fifo"
}

check_walk() {
	{
		if command -v find >/dev/null; then
			find "$tree" -printf '%s\n'
		else
			stat -c %s -- "$tree" "$tree"/**
		fi
	} | awk '{ names++; bytes += $1 } END { printf "%.0f names, %.0f bytes\n", names, bytes }' >"$scratch/expected"
	timeout 60 "$programs/walk" "$tree" >"$scratch/walked" || wrong "status $?"
	expect_same "sums" "$scratch/walked" "$scratch/expected"
	timeout 60 "$programs/walk" "$scratch/missing" >/dev/null 2>"$scratch/messages" && wrong "a missing directory is no error"
	grep -q 'No such file' "$scratch/messages" || wrong "no message about a missing directory"
}

check_epoll() {
	local i input
	printf '%s\n' "$tree"/many/* "$tree"/wide/*/lines >"$scratch/names"
	while IFS= read -r i; do
		printf '%s %s\n' "$(wc -lc <"$i" | awk '{ print $1, $2 }')" "$i"
	done <"$scratch/names" | sort >"$scratch/expected"
	cat "$scratch/names" | timeout 60 "$programs/epoll" >"$scratch/counted" || wrong "status $?"
	sort "$scratch/counted" >"$scratch/sorted"
	expect_same "counts" "$scratch/sorted" "$scratch/expected"

	# Without a newline at the end, with a missing file, and with a signal instead of an end.
	printf '%s\n%s' "$scratch/missing" "$tree/wide/3/lines" |
		timeout 60 "$programs/epoll" >"$scratch/counted" 2>"$scratch/messages" && wrong "a missing file is no error"
	[ "$(cat "$scratch/counted")" = "3 6 $tree/wide/3/lines" ] || wrong "counts after an error"
	mkfifo "$scratch/input"
	: >"$scratch/counted" # here, because the line below empties it only after its input is open
	"$programs/epoll" <"$scratch/input" >"$scratch/counted" 2>&1 &
	pid=$!
	exec {input}>"$scratch/input"
	printf '%s\n' "$tree/wide/3/lines" >&"$input"
	for ((i = 0; i < WAIT && $(stat -c %s "$scratch/counted") == 0; i++)); do sleep 0.05; done
	kill -TERM "$pid"
	wait "$pid"
	[ $? -eq 1 ] || wrong "SIGTERM does not end it"
	[ "$(cat "$scratch/counted")" = "3 6 $tree/wide/3/lines" ] || wrong "counts before a signal"
	exec {input}>&-
	rm "$scratch/input"
}

# The example of each event loop.
check_loop() {
	local i lock= copies=$scratch/copies pid
	rm -rf "$copies"
	mkdir "$copies"
	if command -v flock >/dev/null; then
		exec {lock}<"$root/small"
		flock "$lock"
	fi
	(
		[ -n "$lock" ] && exec {lock}<&-
		exec timeout 60 "$programs/$example" "$root/sub/big" "$copies/big" "$root/small" "$copies/small" \
			"$root/empty" "$copies/empty" >"$scratch/copied" 2>"$scratch/messages"
	) &
	pid=$!
	if [ -n "$lock" ]; then
		for ((i = 0; i < WAIT; i++)); do
			cmp -s "$copies/big" "$root/sub/big" && { [ -e "$copies/empty" ] || [ "$backend" = sync ]; } && break
			sleep 0.05
		done
		[ "$i" -lt "$WAIT" ] || wrong "copies that need no lock have waited"
		[ ! -s "$copies/small" ] && kill -0 "$pid" 2>/dev/null || wrong "does not wait for a lock"
		exec {lock}<&-
	fi
	wait "$pid" || wrong "status $?: $(cat "$scratch/messages")"
	expect_same "a copy" "$copies/big" "$root/sub/big"
	expect_same "a copy" "$copies/small" "$root/small"
	expect_same "a copy" "$copies/empty" "$root/empty"
	[ -z "$lock" ] || [ "$backend" = sync ] || [ "$(tail -n 1 "$scratch/copied")" = "6 $copies/small" ] ||
		wrong "the copy that waited for a lock is not the last"
	timeout 60 "$programs/$example" "$scratch/missing" "$copies/a" 2>/dev/null && wrong "a missing file is no error"
}

check_rmw() {
	local way
	for way in poll signal word; do
		rm -f "$scratch/blocks"
		timeout 60 "$programs/rmw" "$way" "$scratch/blocks" >"$scratch/messages" 2>&1 ||
			wrong "$way: $(cat "$scratch/messages")"
		[ "$(sed 's/.*, at most \([0-9]*\) .*/\1/' "$scratch/messages")" -le 8 ] ||
			wrong "$way: $(cat "$scratch/messages")"
		od -An -v -t u8 -w8 "$scratch/blocks" | tr -d ' ' | sort | uniq -c | awk '{ print $1, $2 }' \
			>"$scratch/numbers"
		[ "$(cat "$scratch/numbers")" = "$((32 * 512)) 100" ] ||
			wrong "$way: $(head -n 3 "$scratch/numbers")"
	done
}

# Two clients at the same time, and one that is silent when the server ends.
check_echo() {
	local one two line
	[ "$backend" = sync ] && return # there a read waits for its client alone
	start || return
	exec {one}<>"/dev/tcp/127.0.0.1/$port" {two}<>"/dev/tcp/127.0.0.1/$port"
	printf 'first\n' >&"$one"
	IFS= read -r -t 60 line <&"$one" && [ "$line" = first ] || wrong "the first client is not served"
	head -c 200000 "$root/sub/big" >"$scratch/sent"
	converse "a long message" "$scratch/sent" <"$scratch/sent"
	exec {one}>&-
	stop
	exec {two}>&-
}

check_tree_hash() {
	local first same other
	stat -c %s -- "$tree"/many/* "$tree"/wide/*/lines |
		awk '{ files++; bytes += $1 } END { printf "%d files, %d bytes", files, bytes }' >"$scratch/expected"
	rm -rf "$scratch/hashed" "$scratch/again"
	mkdir "$scratch/hashed"
	cp -r "$tree/many" "$tree/wide" "$scratch/hashed"
	cp -r "$scratch/hashed" "$scratch/again"
	first=$(timeout 60 "$programs/tree_hash" "$scratch/hashed") || wrong "status $?"
	same=$(timeout 60 "$programs/tree_hash" "$scratch/again")
	[ "$first" = "$same" ] || wrong "another hash for a copy: $first, $same"
	[ "${first#*, }" = "$(cat "$scratch/expected")" ] || wrong "$first instead of $(cat "$scratch/expected")"
	printf x | dd of="$scratch/again/wide/7/lines" bs=1 seek=1 conv=notrunc status=none
	other=$(timeout 60 "$programs/tree_hash" "$scratch/again")
	[ "${other%%,*}" != "${first%%,*}" ] || wrong "the same hash after a change"
	timeout 60 "$programs/tree_hash" "$scratch/missing" 2>/dev/null && wrong "a missing directory is no error"
}

check_wait() {
	local i input
	[ "$backend" = sync ] && return # there the task that counts never waits, and so never ends
	[ "$(echo hello | timeout 60 "$programs/wait")" = "read 6 bytes" ] || wrong "does not read"
	mkfifo "$scratch/waited"
	timeout 60 "$programs/wait" <"$scratch/waited" >"$scratch/counted" 2>&1 &
	pid=$!
	exec {input}>"$scratch/waited"
	for ((i = 0; i < WAIT; i++)); do
		grep -q 'waiting, 1 s' "$scratch/counted" 2>/dev/null && break
		sleep 0.05
	done
	wait "$pid" && wrong "does not give up"
	[ "$(tail -n 1 "$scratch/counted")" = "cannot read: Timer expired" ] || wrong "$(cat "$scratch/counted")"
	[ "$i" -lt "$WAIT" ] || wrong "does not count"
	exec {input}>&-
	rm "$scratch/waited"
}

# io_uring may be forbidden here; every other back end works everywhere.
forbids_ring() {
	[ -x "$programs/walk" ] && LAIO_BACKEND=uring timeout 60 "$programs/walk" "$root" 2>&1 >/dev/null |
		grep -qE 'not permitted|Permission denied|not implemented'
}

if [ "$backend" = uring ] && forbids_ring; then
	echo "check.sh: io_uring is not available here" >&2
	exit 77
fi

make_tree
if [ $# -eq 0 ]; then
	set -- server epoll libuv glib libevent asio walk rmw laio coroutines echo tree_hash wait
	[ "$backend" = lazy ] && set -- "$@" nonblocking helpers liburing # these have no back end
fi
for example; do
	if [ ! -x "$programs/$example" ]; then
		echo "check.sh: $example is not built: skipped"
		continue
	fi
	if [ "$example" = liburing ] && forbids_ring; then
		echo "check.sh: io_uring is not available here: liburing is skipped"
		continue
	fi
	case $example in
	server | nonblocking | helpers | liburing | laio | coroutines)
		check_server
		check_few_descriptors
		;;
	libuv | glib | libevent | asio) check_loop ;;
	epoll | walk | rmw | echo | tree_hash | wait) "check_$example" ;;
	*) wrong "no example has this name" ;;
	esac
	ran=$((ran + 1))
done
[ "$failures" -eq 0 ] || exit 1
[ "$ran" -gt 0 ] || exit 77
echo "check.sh: $backend: $ran examples work"
