handler() {
    local previous=null
    if [[ -v FND_PREVIOUS ]]; then
        previous=$(<"$FND_PREVIOUS")
    fi
    printf '{"invocation":"%s","attempt":%s,"poll":%s,"trigger":"%s","deadline":%s,"traceparent":"%s","previous":%s}' \
        "$FND_INVOCATION" "$FND_ATTEMPT" "$FND_POLL" "$FND_TRIGGER" "$FND_DEADLINE" "$TRACEPARENT" "$previous"
}
