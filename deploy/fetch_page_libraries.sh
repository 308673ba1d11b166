#!/bin/sh
# Fetch the libraries of the page again, each without its reference to a source map. Needs npm and a network.
# After a change of a version, the last command says what has another hash.
set -eu
cd "$(dirname "$0")/../server/page/vendor"

fetch() {
    archive=$(npm pack --silent "$2")
    tar -xzf "$archive" "package/$3" package/LICENSE
    sed '/^\/\/# sourceMappingURL/d' "package/$3" > "$1.js"
    mv package/LICENSE "$1.LICENSE"
    rm -r package "$archive"
}

fetch preact htm@3.1.1 preact/standalone.module.js
fetch marked marked@18.2.1 lib/marked.esm.js
fetch purify dompurify@3.4.18 dist/purify.es.mjs
fetch diff diff-match-patch-es@2.0.1 dist/index.mjs
sha256sum --check ../../../deploy/page_libraries.sha256
