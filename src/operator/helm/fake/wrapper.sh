#!/bin/sh
# Stands in for `osdpl exec-helm` in unit tests, whose program is the test harness, our parent: hands the arguments to the
# test that turns into helm.
OSDPL_TEST_EXEC=$(printf '%s\n' "$@")
export OSDPL_TEST_EXEC
exec "/proc/$PPID/exe" --exact helm::exec::tests::turns_into_its_arguments --ignored --test-threads=1
