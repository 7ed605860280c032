#!/bin/sh
# Stands in for `osdpl exec-helm` in unit tests: runs the test that executes helm, with these arguments. The parent
# process is the test program, which contains that test.
OSDPL_TEST_EXEC=$(printf '%s\n' "$@")
export OSDPL_TEST_EXEC
exec "/proc/$PPID/exe" --exact helm::exec::tests::turns_into_its_arguments --ignored --test-threads=1
