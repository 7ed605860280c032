#!/bin/sh
# Stands in for `osdpl exec-helm` in unit tests. The parent is the test harness: passes the arguments to the test that
# executes helm.
OSDPL_TEST_EXEC=$(printf '%s\n' "$@")
export OSDPL_TEST_EXEC
exec "/proc/$PPID/exe" --exact helm::exec::tests::turns_into_its_arguments --ignored --test-threads=1
