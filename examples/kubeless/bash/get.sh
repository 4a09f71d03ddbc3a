# shellcheck shell=bash
hello() {
    echo "hello world"
}
