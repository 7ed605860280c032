#!/bin/sh
# Stands in for helm in tests: runs the file `script` that the test wrote into the operator's folder for helm.
# The environment is scrubbed. It only contains HOME, which is the folder of a slot below that folder.
home=${HOME%/*}

# Sends a message to the test. The test holds the pipe open, so this never blocks.
report() { printf '%s\n' "$*" >"$home/messages"; }

# Waits until the test lets one process continue.
wait_for_go() { read -r _ <"$home/go"; }

# Waits until a signal ends it. A trapped signal may be missed: the shell checks for it before `read` begins, and it may arrive right after that.
# So a script with a trap runs this in the background before it sets the trap, and uses `wait`, which never misses a signal.
wait_for_ever() { read -r _ <>"$home/never"; }

. "$home/script"
