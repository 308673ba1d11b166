#!/bin/sh
# Replace the tags of images in the Dockerfile and the compose file by digests, or by newer ones. The digests come from
# the images' registry, so this needs Docker with buildx and a network. Without it, no file is changed.
set -eu
cd "$(dirname "$0")/.."

script=$(mktemp)
trap 'rm -f "$script"' EXIT
names=$(sed -nE 's/^(FROM +|[[:space:]]+image: +)([a-z0-9./-]+:[a-z0-9.-]+).*/\2/p' Dockerfile docker-compose.yml | sort -u)
for name in $names; do
    [ "$name" != ragflow-lg:latest ] || continue  # our own
    digest=$(docker buildx imagetools inspect "$name" --format '{{.Manifest.Digest}}')
    case $digest in
        sha256:*) ;;
        *) echo "Docker returned no digest for $name: $digest" >&2; exit 1 ;;
    esac
    printf '%s\n' "s|($name)(@sha256:[0-9a-f]{64})?|\\1@$digest|" >> "$script"
done
sed -i -E -f "$script" Dockerfile docker-compose.yml
