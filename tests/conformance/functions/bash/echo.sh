handler() {
    cat
}
