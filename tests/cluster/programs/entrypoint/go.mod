module cluster-tools/entrypoint

go 1.26.0
