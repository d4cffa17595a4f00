# Both images, from the source:
#   docker build --target cocoon-operator -t cocoon-operator .
#   docker build --target vk-cocoon -t vk-cocoon .
# hack/image makes the same content without a Docker daemon.
FROM debian:bookworm-slim AS build
RUN apt-get update && apt-get install -y --no-install-recommends gcc make pkg-config git ca-certificates libev-dev \
    libcurl4-openssl-dev libjansson-dev libyaml-dev libssl-dev zlib1g-dev libzstd-dev libhttp-parser-dev uthash-dev \
    libmbedtls-dev && rm -rf /var/lib/apt/lists/*
WORKDIR /src
COPY . .
RUN git config --global --add safe.directory /src \
    && make -j"$(nproc)" VARIANT=release build/release/cocoon-operator build/release/vk-cocoon \
    && hack/image --fill cocoon-operator /out/cocoon-operator && hack/image --fill vk-cocoon /out/vk-cocoon

FROM scratch AS cocoon-operator
LABEL org.opencontainers.image.title="cocoon-operator" \
      org.opencontainers.image.description="Turns CocoonSets into Pods that can hibernate" \
      org.opencontainers.image.licenses="MIT"
COPY --from=build /out/cocoon-operator/ /
USER 65532:65532
ENTRYPOINT ["/usr/bin/cocoon-operator"]

# Root: it enters the host's namespaces.
FROM scratch AS vk-cocoon
LABEL org.opencontainers.image.title="vk-cocoon" \
      org.opencontainers.image.description="Virtual kubelet that runs Pods as cocoon microVMs" \
      org.opencontainers.image.licenses="MIT"
COPY --from=build /out/vk-cocoon/ /
ENTRYPOINT ["/usr/bin/vk-cocoon"]
