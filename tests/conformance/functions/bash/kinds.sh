set -euo pipefail

handler() {
    local seen=0
    case $DATA in
    error)
        echo "it broke" >&2
        false
        echo "not reached" >&2
        ;;
    transient) exit 75 ;;
    failed) exit 65 ;;
    again)
        if [[ -v FND_PREVIOUS ]]; then
            seen=$(sed 's/.*"seen":\([0-9]*\).*/\1/' "$FND_PREVIOUS")
        fi
        echo "{\"seen\":$((seen + 1))}" >"$FND_RESULT"
        exit 99
        ;;
    esac
    echo -n fine
}
