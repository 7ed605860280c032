#!/usr/bin/env bash
# Runs `make demo`: on a machine with Rust and Go, starts a real local control plane and the operator, and creates a
# cloud.
#
#   demo.sh up     build missing programs, start everything, and wait until the cloud is Ready
#   demo.sh env    print KUBECONFIG and PATH, for eval in a shell
#   demo.sh down   stop the demo and remove its files
#
# Every step first checks whether an earlier run has completed it. So you can repeat an interrupted run.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
state=${OSDPL_DEMO:-${OSDPL_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/osdpl}/demo}
built=${CARGO_TARGET_DIR:-$root/target}/debug
charts=${CHARTS:-$root/tests/charts}
sample=${SAMPLE:-$root/deploy/samples/minimal.yaml}
system=osdpl-system
begun=$SECONDS

say() { printf '%s\n' "$*"; }
die() {
    printf 'demo: %s\n' "$*" >&2
    exit 1
}

# Prints the description of a step, and the time since this script started.
step() { printf '\n[%3d s] %s\n' $((SECONDS - begun)) "$*"; }

# Runs a command and waits for it. Writes its output into a log, and prints the last line of the log as progress.
watched() {
    local what=$1 log=$2 status=0 ticker
    shift 2
    say "         $what, log: $log"
    ticker "$log" &
    ticker=$!
    "$@" >"$log" 2>&1 </dev/null || status=$?
    kill "$ticker" 2>/dev/null || true
    wait "$ticker" 2>/dev/null || true
    [[ $status -eq 0 ]] && return
    tail -n 25 "$log" >&2
    die "$what failed; see the log $log"
}

# If this script ends early, stop the build of the Go programs in the background. The next run continues with the first
# program that is not in the cache.
trap '[[ -z ${go_build:-} ]] || kill "$go_build" 2>/dev/null || true' EXIT

# Prints the last line of a log and the elapsed time, until it is killed. On a terminal, it updates one line every
# second. Otherwise, it prints a line every 15 seconds.
ticker() {
    local since=$SECONDS every=15 before='' after='\n' line
    [[ ! -t 1 ]] || { every=1 before='\r\e[K' after=''; }
    trap 'kill $! 2>/dev/null; printf "$before"; exit' TERM
    while sleep $every & wait $!; do
        kill -0 $$ 2>/dev/null || exit 0
        line=$(tail -n 1 "$1" | sed 's/^ *//' | cut -c 1-60)
        printf "$before         … %d s: %s$after" $((SECONDS - since)) "$line"
    done
}

programs=(etcd kube-apiserver kube-controller-manager kube-scheduler kwok kubectl helm4)
go_build=

build() {
    command -v cargo >/dev/null || die "cargo is not on PATH; install Rust 1.91 or newer: https://rustup.rs"
    # Debug builds take half the time of release builds. Both builds below select the whole workspace, so they
    # share the dependencies. With `-p cluster` alone, cargo would build some of them with other features.
    local cargo=(cargo build --locked --manifest-path "$root/Cargo.toml" --workspace)
    step "build osdpl, the cluster tool and the control plane: takes minutes the first time only"
    watched "cargo build --bin cluster" "$state/build.log" "${cargo[@]}" --bin cluster
    # Build the Go programs in the background while cargo builds osdpl, because cargo does not always use all cores.
    "$built/cluster" programs "${programs[@]}" >"$state/programs.log" 2>&1 </dev/null 9>&- &
    go_build=$!
    watched "cargo build --bin osdpl" "$state/build.log" "${cargo[@]}" --bin osdpl
    mkdir -p "$state/bin"
    # Run copies of the programs, so that a later cargo build does not change the programs of a running demo.
    for pair in osdpl:osdpl osdpl:kubectl-osdpl cluster:cluster; do
        cmp -s "$built/${pair%:*}" "$state/bin/${pair#*:}" || install "$built/${pair%:*}" "$state/bin/${pair#*:}"
    done
}

control_plane() {
    step "wait for etcd, kube-apiserver, kube-controller-manager, kube-scheduler, kwok, kubectl and helm, built with Go"
    wait "$go_build" || true
    go_build=
    # If the background build failed, this command builds the missing programs and prints the error.
    cluster programs "${programs[@]}" >/dev/null
    step "start the control plane"
    # Close file descriptor 9, the lock of this run. Otherwise the supervisor, which keeps running, would hold the lock.
    cluster up "$state/cluster" --with helm4 9>&- | head -n 1
    eval "$(cluster env "$state/cluster")"
}

# Installs the operator's own chart with helm, as an administrator does on any cluster.
operators_chart() {
    step "install the operator's chart with helm into namespace $system"
    case $(helm status osdpl -n "$system" -o json 2>/dev/null | grep -o '"status":"pending-[a-z]*"') in
    # The release is pending, because an earlier run was killed during the install. Uninstall it first: this deletes
    # neither the CRDs nor a cloud.
    *pending*) helm uninstall osdpl -n "$system" >/dev/null ;;
    esac
    kubectl get namespace openstack >/dev/null 2>&1 || kubectl create namespace openstack >/dev/null
    helm upgrade --install osdpl "$root/deploy/osdpl" -n "$system" --create-namespace --history-max 3 >"$state/helm.log" 2>&1 ||
        { cat "$state/helm.log" >&2; die "helm cannot install deploy/osdpl; see its output above"; }
    kubectl wait --for=condition=Established --timeout=60s crd/openstackdeployments.osdpl.dev >/dev/null
    say "         $(helm list -n "$system" --no-headers | tr -s ' \t' ' ' | cut -d ' ' -f 1,8-)"
}

# Prints the operator's process ID if the process is alive. Also compares the start time of the process, because the
# kernel may have given the ID to another process.
operator_pid() {
    local pid started
    read -r pid started 2>/dev/null <"$state/operator.pid" && [[ $(birth "$pid") == "$started" ]] && echo "$pid"
}

# Prints the start time of a process in clock ticks since boot (proc_pid_stat(5), field 22).
birth() {
    local stat
    stat=$(cat "/proc/$1/stat" 2>/dev/null) || { echo gone; return; }
    stat=${stat##*) }
    set -- $stat
    [[ $1 == Z ]] && echo gone || echo "${20}"
}

stop_operator() {
    local pid
    pid=$(operator_pid) || return 0
    kill -TERM "$pid"
    for _ in {1..300}; do
        operator_pid >/dev/null || return 0
        sleep 0.1
    done
    kill -KILL "$pid" 2>/dev/null || true
}

free_port() {
    local port
    for port in {18080..18179}; do
        (exec 3<>"/dev/tcp/127.0.0.1/$port") 2>/dev/null || { echo "$port"; return; }
    done
}

# Starts the operator as a process with the rights of the chart's ServiceAccount, because simulated kubelets run no
# containers.
operator() {
    local pid inputs kubeconfig port
    step "start the operator as a process with ServiceAccount $system/osdpl"
    inputs="$(sha256sum <"$state/bin/osdpl") $charts"
    if pid=$(operator_pid) && [[ $(cat "$state/operator.inputs" 2>/dev/null) == "$inputs" ]]; then
        say "         already running, process $pid; metrics at $(cat "$state/operator.address")"
        return
    fi
    stop_operator
    kubeconfig=$(cluster token "$state/cluster" "$system/osdpl")
    port=$(free_port)
    # Use the same settings of the memory allocator as the chart's Deployment.
    MALLOC_ARENA_MAX=1 MALLOC_TRIM_THRESHOLD_=65536 GLIBC_TUNABLES=glibc.malloc.tcache_count=0 OSDPL_NAMESPACES=openstack KUBECONFIG=$kubeconfig setsid "$state/bin/osdpl" operator --namespace "$system" --charts "$charts" --cache "$state/cache" \
        --helm "$(readlink -f "$(command -v helm)")" --listen "127.0.0.1:$port" --plain-logs >>"$state/operator.log" 2>&1 </dev/null 9>&- &
    pid=$!
    echo "$pid $(birth "$pid")" >"$state/operator.pid"
    echo "$inputs" >"$state/operator.inputs"
    echo "http://127.0.0.1:$port/metrics" >"$state/operator.address"
    say "         started, process $pid; log: $state/operator.log; metrics at http://127.0.0.1:$port/metrics"
}

cloud() {
    step "create the cloud: kubectl apply --server-side -f ${sample#"$root"/}"
    if [[ -n $(kubectl get osdpl -A -o name) ]]; then
        say "         a cloud exists already and is not changed"
        return
    fi
    sed -n '/^[^#]/s/^/         /p' "$sample"
    kubectl apply --server-side -f "$sample"
}

# Shows the status until the cloud is Ready. Fails if the operator exits, or after TIMEOUT seconds.
progress() {
    local watcher limit=$((SECONDS + ${TIMEOUT:-900}))
    step "wait until it is Ready"
    # `osdpl status` succeeds only if the cloud is Ready and the operator has observed the current spec.
    if osdpl status >/dev/null 2>&1; then
        say "         it is Ready"
        return
    fi
    osdpl status --watch &
    watcher=$!
    while kill -0 "$watcher" 2>/dev/null; do
        sleep 0.2
        if ! operator_pid >/dev/null; then
            kill "$watcher" 2>/dev/null
            tail -n 15 "$state/operator.log" >&2
            die "the operator has exited; see $state/operator.log, and run \`make demo\` to restart it"
        elif ((SECONDS > limit)); then
            kill "$watcher" 2>/dev/null
            osdpl status >&2 || true
            die "the cloud is not Ready after ${TIMEOUT:-900} s; \`make demo\` waits again, \`make demo-down\` removes the demo"
        fi
    done
    wait "$watcher"
}

summary() {
    say
    say "Ready after $((SECONDS - begun)) s."
    say
    osdpl status
    say
    kubectl get osdpl -A
    say
    sed "s|@STATE@|$state|g" "$root/tests/demo/next.txt"
}

up() {
    case $charts in /*) ;; *) charts=$PWD/$charts ;; esac
    [[ -d $charts ]] || die "there is no folder CHARTS=$CHARTS; name a folder with charts as .tgz files or directories"
    mkdir -p "$state"
    exec 9>"$state/lock"
    flock -n 9 || die "another \`make demo\` is running in $state; wait until it has ended"
    export PATH="$state/bin:$PATH"
    build
    control_plane
    operators_chart
    operator
    cloud
    progress
    summary
}

environment() {
    [[ -x $state/bin/cluster ]] || die "no demo is running; start one with make demo"
    "$state/bin/cluster" env "$state/cluster"
    say "export PATH=$state/bin:\$PATH"
}

down() {
    [[ -d $state ]] || { say "no demo is running"; return; }
    exec 9>"$state/lock"
    flock -n 9 || die "\`make demo\` is running in $state; stop it first"
    stop_operator
    [[ ! -x $state/bin/cluster ]] || "$state/bin/cluster" down "$state/cluster" >/dev/null
    # Remove only the files of the demo: the user may have set OSDPL_DEMO to a folder that contains other files.
    (cd "$state" && rm -rf bin cache cluster operator.{pid,inputs,address,log} build.log programs.log helm.log lock)
    rmdir "$state" 2>/dev/null || true
    say "the demo is removed; built programs are kept for the next one"
}

case ${1:-} in
up) up ;;
env) environment ;;
down) down ;;
*) die "usage: demo.sh up|env|down" ;;
esac
