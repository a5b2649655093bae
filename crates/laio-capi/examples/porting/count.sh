#!/bin/sh
# SPDX-License-Identifier: MIT OR Apache-2.0
#
# count.sh - counts the lines of code of the five servers, and prints a table in Markdown.
#
#     ./count.sh                    prints the table
#     ./count.sh --check PAGE       fails if PAGE does not contain the table as it is now
#
# A line of code is a line that is neither blank nor only comment; a lone brace counts. A comment such as
# `/* [file read] */`, alone on its line, says to which component the lines below it belong, up to the
# next such comment. What comes before the first one (the #include lines) belongs to "connections".
# common.h is the same in all five, and counts in each.
set -eu
cd "$(dirname "$0")" && here=$PWD && cd "$OLDPWD"

table() {
	(cd "$here" && awk '
		function code(line,    out, at) {
			out = ""
			for (;;) {
				if (inside) {
					at = index(line, "*/")
					if (!at) return out
					line = substr(line, at + 2)
					inside = 0
				}
				at = index(line, "/*")
				if (!at) return out line
				out = out substr(line, 1, at - 1)
				line = substr(line, at + 2)
				inside = 1
			}
		}
		FNR == 1 { file = FILENAME; inside = 0; part = file == "common.h" ? "shared" : "connections" }
		/^[ \t]*\/\* \[[a-z -]+\] \*\/$/ {
			part = $0
			gsub(/^[^[]*\[|\].*$/, "", part)
			if (!(part in known)) { print "count.sh: " file ": no component " part; bad = 1; exit 1 }
		}
		code($0) ~ /[^ \t]/ { lines[file, part]++; total[file]++ }
		BEGIN {
			n = split("event loop,connections,requests,name conversion,file read," \
			          "partial-write state,helpers", parts, ",")
			for (i = 1; i <= n; i++) known[parts[i]] = 1
			m = split("nonblocking.c helpers.c liburing.c laio.c coroutines.cpp", files, " ")
		}
		END {
			if (bad) exit 1
			head = "| component |"; rule = "| --- |"
			for (j = 1; j <= m; j++) { head = head " `" files[j] "` |"; rule = rule " ---: |" }
			print head; print rule
			for (i = 1; i <= n; i++) {
				row = "| " parts[i] " |"
				for (j = 1; j <= m; j++) row = row " " lines[files[j], parts[i]] + 0 " |"
				print row
			}
			row = "| `common.h` |"; sum = "| **total** |"
			for (j = 1; j <= m; j++) {
				row = row " " total["common.h"] " |"
				sum = sum " **" total[files[j]] + total["common.h"] "** |"
			}
			print row; print sum
		}' common.h nonblocking.c helpers.c liburing.c laio.c coroutines.cpp)
}

case "${1-} $#" in
" 0")
	table
	;;
"--check 2")
	now=$(table)
	there=$(awk -v first="$(printf '%s\n' "$now" | sed -n 1p)" '
		$0 == first { on = 1 }
		on && !/^\|/ { exit }
		on' "$2")
	if [ "$now" != "$there" ]; then
		echo "count.sh: the table in $2 is not the present one, which is:" >&2
		printf '%s\n' "$now" >&2
		exit 1
	fi
	;;
*)
	echo "usage: count.sh [--check PAGE]" >&2
	exit 2
	;;
esac
