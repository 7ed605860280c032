#!/bin/sh
# Stands in for helm in tests: runs the file `script` that the test wrote into the operator's folder for helm.
# The environment does not name the operator's folder. HOME is the folder of a slot, directly below it.
home=${HOME%/*}

# Sends a message to the test. The test holds the pipe open, so this function never blocks.
report() { printf '%s\n' "$*" >"$home/messages"; }

# Waits until the test lets one process continue.
wait_for_go() { read -r _ <"$home/go"; }

# Waits until a signal ends the process. A script with a trap must not call this function directly: the shell checks for
# signals before `read` begins, and misses a signal that arrives right after the check. Such a script runs this function
# in the background before it sets the trap, and then uses `wait`, which never misses a signal.
wait_for_ever() { read -r _ <>"$home/never"; }

. "$home/script"
