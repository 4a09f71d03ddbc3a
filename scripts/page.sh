#!/usr/bin/env bash
# Walks through the page with a browser, chromium without a window: tests/page. Each argument names a part (`morning`, `look`, ...);
# without one all parts run. With `PICTURES=DIRECTORY` each test leaves a picture there of what it saw last.
set -euo pipefail
# shellcheck source=scripts/lib.sh
. "$(dirname "$0")/lib.sh"

[[ -e $target/tools/page/installed.txt ]] || die "no playwright and axe-core: run scripts/setup.sh --ci"
if [[ -n ${PICTURES:-} ]]; then
    mkdir -p "$PICTURES"
    FND_PAGE_PICTURES=$(cd "$PICTURES" && pwd)
    export FND_PAGE_PICTURES
fi
(($#)) || set -- ""
FND_REQUIRE=chromium,page exec "$root/scripts/test.sh" "${@/#/page::test_}"
