#!/bin/sh
# Stands in for helm in tests: plays what the test wrote into the file `play` in the operator's folder for helm.
# The environment is scrubbed, so all it knows is HOME, which is a slot's folder below that.
home=${HOME%/*}

# Tells the test something; the test holds the pipe open, so this never blocks.
say() { printf '%s\n' "$*" >"$home/said"; }

# Waits until the test lets one child go on.
wait_for_go() { read -r _ <"$home/go"; }

# Waits until a signal ends it. One that is trapped may not be heard: a shell looks for it before `read` begins, and it may come right after that.
# A play with a trap waits by `wait`, which hears it in any case, for this in the background, begun before the trap is set.
wait_for_ever() { read -r _ <>"$home/never"; }

. "$home/play"
