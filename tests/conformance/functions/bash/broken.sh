handler() {
    if true; then
}
