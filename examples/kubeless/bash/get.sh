hello() {
    echo "hello world"
}
