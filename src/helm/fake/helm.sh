#!/bin/sh
# Stands in for helm in tests: plays what the test wrote into the file `play` in the operator's folder for helm.
# The environment is scrubbed, so all it knows is HOME, which is a slot's folder below that.
home=${HOME%/*}

# Tells the test something; the test holds the pipe open, so this never blocks.
say() { printf '%s\n' "$*" >"$home/said"; }

# Waits until the test lets one child go on.
wait_for_go() { read -r _ <"$home/go"; }

# Waits for a signal, without a process of its own that could outlive it.
wait_for_ever() { read -r _ <>"$home/never"; }

. "$home/play"
