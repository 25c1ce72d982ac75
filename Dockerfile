# syntax=docker/dockerfile:1
# The ingress alone: one binary with the libraries it is linked to, no shell, no package manager,
# any unprivileged user, a root file system that is never written.
#
#   docker build --tag streamgate:0.1.0 .

FROM rust:1.89-bookworm AS build
# zlib-ng is built with cmake.
RUN apt-get update \
 && apt-get install --yes --no-install-recommends cmake \
 && rm -rf /var/lib/apt/lists/*
WORKDIR /build
COPY . .
# Several trees meet in the cache of built crates. Cargo goes by the times of files, and the sources
# of an unpacked release are older than what was built of another tree: untouched, they would pass
# for built, and the image would hold the other tree's binary. One build at a time, for the same
# reason.
RUN --mount=type=cache,target=/usr/local/cargo/registry \
    --mount=type=cache,id=streamgate-target,target=/build/target,sharing=locked \
    touch src/lib.rs src/main.rs \
 && cargo build --release --locked --package streamgate --bin streamgate \
 && install -D target/release/streamgate /image/usr/bin/streamgate
# What the loader names, at the places it names. TLS is rustls: there is no OpenSSL among it.
RUN ldd /image/usr/bin/streamgate | grep --only-matching '/[^ ]*' \
  | xargs --no-run-if-empty cp --dereference --parents --target-directory /image \
 && install -D --mode 0644 /etc/ssl/certs/ca-certificates.crt /image/etc/ssl/certs/ca-certificates.crt

FROM scratch
COPY --from=build /image/ /
USER 65532:65532
EXPOSE 8080 9180
ENTRYPOINT ["/usr/bin/streamgate"]
CMD ["serve", "--config", "/etc/streamgate/streamgate.yaml"]
