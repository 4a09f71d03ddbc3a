handler() {
    echo "out $DATA"
    echo "err $DATA" >&2
    printf %s "$DATA" >"$FND_RESULT"
}
