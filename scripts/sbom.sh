#!/usr/bin/env bash
# Prints the list of crates that are linked into the programs of the package, as CycloneDX 1.5 (JSON), for scanners of vulnerabilities.
# Crates of the build alone (macros, build scripts) are not in it. The same commit gives the same bytes: no time, no serial number. `--target TRIPLE`: for another machine.
set -euo pipefail
# shellcheck source=scripts/lib.sh
. "$(dirname "$0")/lib.sh"
cd "$root"

# NAME VERSION SUM of each crate of the registry; the sum is that of its .crate file.
sums() { awk -F '"' '/^name = / { name = $2 } /^version = / { version = $2 } /^checksum = / { print name "\t" version "\t" $2 }' Cargo.lock; }

# Not read from a pipe by jq: nobody would see that cargo failed, and the list would be empty.
crates=$(linked_crates "$@")
jq --null-input --rawfile crates <(printf '%s\n' "$crates") --rawfile sums <(sums) \
    --arg version "$(sed -n '/^\[workspace\.package\]/,/^\[/s/^version = "\(.*\)"/\1/p' Cargo.toml)" '
    def rows: split("\n") | map(select(length > 0) | split("\t"));
    ($sums | rows | map({key: "\(.[0]) \(.[1])", value: .[2]}) | from_entries) as $sum
    | {
        bomFormat: "CycloneDX", specVersion: "1.5", version: 1,
        metadata: {component: {type: "application", "bom-ref": "fnd", name: "fnd", version: $version}},
        components: ($crates | rows | map(
            (.[0] | split(" ") | {name: .[0], version: (.[1] | ltrimstr("v"))}) as $crate
            # Those without a sum are fnd itself.
            | $sum["\($crate.name) \($crate.version)"] as $content | select($content)
            | "pkg:cargo/\($crate.name)@\($crate.version)" as $purl
            | {type: "library", "bom-ref": $purl, name: $crate.name, version: $crate.version, purl: $purl,
                licenses: [{expression: (.[1] | gsub(" */ *"; " OR "))}], hashes: [{alg: "SHA-256", content: $content}]}
        ) | sort_by(.purl))
    }'
