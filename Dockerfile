# The operator's image: osdpl with its catalogue, and helm, in an otherwise empty root. Needs BuildKit.
#
#   docker build -t osdpl .                                 from source
#   docker build -t osdpl --build-arg PROGRAMS=prebuilt .   offline, from the output of `make image-root` in target/image-root
#   docker build -t osdpl --build-arg CHARTS=charts .       with the charts that `osdpl charts pull` put into the folder charts/
#
# deploy/image-root always assembles the root, and explains why it contains glibc. osdpl is PID 1: it waits for each helm
# process that it starts (helm starts none itself) and stops them on SIGTERM; if it dies, the kernel kills the remaining
# processes in the container. So no init process is needed.
ARG PROGRAMS=source

FROM golang:1.26-bookworm AS helm
WORKDIR /helm
COPY tests/cluster/programs/helm4/ ./
ENV CGO_ENABLED=0 GOFLAGS=-mod=readonly GOTOOLCHAIN=local GOCACHE=/go/cache
RUN --mount=type=cache,target=/go/pkg/mod --mount=type=cache,target=/go/cache \
    go build -trimpath -o helm \
      -ldflags "-s -w -X helm.sh/helm/v4/internal/version.version=$(go list -m -f '{{.Version}}' helm.sh/helm/v4)" \
      helm.sh/helm/v4/cmd/helm

FROM rust:1.95-bookworm AS source
ARG CHARTS=
WORKDIR /osdpl
# Copy single folders, so that the builder does not receive target/.
COPY Cargo.toml Cargo.lock ./
COPY deploy/ deploy/
COPY presets/ presets/
COPY src/ src/
COPY tests/ tests/
COPY values/ values/
# COPY needs an existing file even if CHARTS is empty: Cargo.toml. If CHARTS names a folder, COPY also copies its files.
COPY Cargo.toml ${CHARTS} charts/
COPY --from=helm /helm/helm /usr/local/bin/helm
RUN --mount=type=cache,target=/usr/local/cargo/registry --mount=type=cache,target=/osdpl/target \
    rm charts/Cargo.toml \
    && cargo rustc --config deploy/dist.toml --profile dist --locked -p osdpl --bin osdpl -- -Clink-arg=-Wl,-T,deploy/rare-code.ld \
    && deploy/image-root /image-root --osdpl target/dist/osdpl --helm /usr/local/bin/helm ${CHARTS:+--charts charts}

FROM scratch AS prebuilt
COPY target/image-root/ /image-root/

FROM ${PROGRAMS} AS programs

FROM scratch
COPY --from=programs /image-root/ /
USER 65532:65532
ENV PATH=/usr/local/bin
ENTRYPOINT ["/usr/local/bin/osdpl"]
CMD ["operator"]
