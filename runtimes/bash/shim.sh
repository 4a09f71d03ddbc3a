# The shim of runtime bash: sources a function's file once and runs its `handler` in a subshell for each invocation
# (runtimes/PROTOCOL.md). Everything here is named `_fnd_...`, because it shares its shell with the function.
#
# A call costs one fork: bytes are read and written by builtins. Only large or binary data goes through `head`.

# Options of the `#!` line also hold for the function.
_fnd_given=()
for _fnd_line in errexit nounset xtrace pipefail; do
    if shopt -qo "$_fnd_line"; then
        _fnd_given+=(-o "$_fnd_line")
        set +o "$_fnd_line"
    fi
done
unset -v _fnd_line

readonly _fnd_invoke=2 _fnd_body=3 _fnd_result=4 _fnd_error=5 _fnd_stop=7
readonly _fnd_frame_max=262144
# The shell itself reads parts up to this size: a process would cost more.
readonly _fnd_small=4096
# Payloads up to this size are in `DATA`, too.
readonly _fnd_data_max=65536
readonly _fnd_tmp=${TMPDIR:-/tmp}
readonly _fnd_payload=$_fnd_tmp/.fnd-payload _fnd_before=$_fnd_tmp/.fnd-previous
readonly _fnd_out=$_fnd_tmp/.fnd-stdout _fnd_answer=$_fnd_tmp/.fnd-result


# Reads 4 bytes as one little-endian number into _fnd_number. `read` leaves a variable empty at a NUL byte, which printf
# takes for 0. Written out because a loop over bytes costs more than everything else of a call.
_fnd_read_number() {
    local IFS= a b c d value
    read -r -d '' -n 1 -u 3 a && read -r -d '' -n 1 -u 3 b || return 1
    read -r -d '' -n 1 -u 3 c && read -r -d '' -n 1 -u 3 d || return 1
    printf -v value '(%d&255)|(%d&255)<<8|(%d&255)<<16|(%d&255)<<24' "'$a" "'$b" "'$c" "'$d"
    _fnd_number=$((value))
}

# Reads a header into _fnd_left _fnd_type _fnd_flags _fnd_call, over frames of types that may be skipped.
_fnd_read_header() {
    while true; do
        _fnd_read_number || return 1
        _fnd_left=$_fnd_number
        _fnd_read_number || return 1
        _fnd_type=$((_fnd_number & 255)) _fnd_flags=$((_fnd_number >> 8 & 255))
        _fnd_read_number || return 1
        _fnd_call=$_fnd_number
        _fnd_read_number || return 1
        _fnd_call=$((_fnd_call | _fnd_number << 32))
        case $_fnd_type in
        "$_fnd_invoke" | "$_fnd_body" | "$_fnd_stop") return 0 ;;
        esac
        if ((!(_fnd_flags & 2))); then
            echo "fnd sent a frame of type $_fnd_type" >&2
            return 1
        fi
        _fnd_copy "$_fnd_left" /dev/null
    done
}

# Copies `$1` bytes, all of them in the frame at hand, to the end of the file `$2`.
_fnd_copy() {
    local IFS= left=$1 piece
    ((_fnd_left -= left))
    if ((left > _fnd_small)); then
        head -c "$left" <&3 >>"$2"
        return
    fi
    while ((left > 0)); do
        read -r -d '' -n "$left" -u 3 piece || return 1
        printf %s "$piece"
        ((left -= ${#piece}))
        if ((left > 0)); then
            # `read` stopped early: at a NUL byte.
            printf '\0'
            ((left -= 1))
        fi
    done >>"$2"
    return 0
}

# Reads the next `$1` bytes of the message, from as many frames as they are in, into the file `$2`.
_fnd_part() {
    local left=$1 piece
    : >"$2"
    while ((left > 0)); do
        if ((_fnd_left == 0)); then
            _fnd_read_header || return 1
        fi
        piece=$((left < _fnd_left ? left : _fnd_left))
        _fnd_copy "$piece" "$2" || return 1
        ((left -= piece))
    done
    return 0
}

# Appends the number `$1` as four bytes, in escapes for printf, to _fnd_escapes.
_fnd_number_bytes() {
    local bytes
    printf -v bytes '\\x%02x\\x%02x\\x%02x\\x%02x' \
        $(($1 & 255)) $(($1 >> 8 & 255)) $(($1 >> 16 & 255)) $(($1 >> 24 & 255))
    _fnd_escapes+=$bytes
}

# Sets _fnd_escapes to a header: length, type, flags, call.
_fnd_header() {
    _fnd_escapes=
    _fnd_number_bytes "$1"
    _fnd_number_bytes $(($2 | $3 << 8))
    _fnd_number_bytes "$4"
    _fnd_number_bytes $(($4 >> 32))
}

# Sends a message that is text of at most one frame: type, call, text.
_fnd_send() {
    _fnd_header "${#3}" "$1" 0 "$2"
    printf "$_fnd_escapes%s" "$3" >&3
}


# Takes one JSON value off _fnd_rest, or fails. A string's text, still escaped, is left in _fnd_text.
_fnd_value() {
    local close number='^(-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?|true|false|null)'
    _fnd_space
    case $_fnd_rest in
    '"'*) _fnd_string ;;
    '{'* | '['*)
        [[ $_fnd_rest == '{'* ]] && close='}' || close=']'
        _fnd_rest=${_fnd_rest:1}
        _fnd_space
        if [[ $_fnd_rest == "$close"* ]]; then
            _fnd_rest=${_fnd_rest:1}
            return 0
        fi
        while true; do
            if [[ $close == '}' ]]; then
                _fnd_space
                _fnd_string && _fnd_space && [[ $_fnd_rest == :* ]] || return 1
                _fnd_rest=${_fnd_rest:1}
            fi
            _fnd_value || return 1
            _fnd_space
            case $_fnd_rest in
            ,*) _fnd_rest=${_fnd_rest:1} ;;
            "$close"*)
                _fnd_rest=${_fnd_rest:1}
                return 0
                ;;
            *) return 1 ;;
            esac
        done
        ;;
    *)
        [[ $_fnd_rest =~ $number ]] || return 1
        _fnd_rest=${_fnd_rest:${#BASH_REMATCH[0]}}
        ;;
    esac
}

_fnd_space() {
    while [[ $_fnd_rest == [$' \t\n\r']* ]]; do
        _fnd_rest=${_fnd_rest:1}
    done
}

_fnd_string() {
    local string='^"([^"\\[:cntrl:]]*(\\.[^"\\[:cntrl:]]*)*)"'
    [[ $_fnd_rest =~ $string ]] || return 1
    _fnd_text=${BASH_REMATCH[1]}
    _fnd_rest=${_fnd_rest:${#BASH_REMATCH[0]}}
}

# Replaces the escapes in _fnd_text.
_fnd_unescape() {
    [[ $_fnd_text == *\\* ]] || return 0
    local rest=$_fnd_text made= piece code low
    while [[ $rest == *\\* ]]; do
        made+=${rest%%\\*}
        rest=${rest#*\\}
        case $rest in
        b*) piece=$'\b' ;;
        f*) piece=$'\f' ;;
        n*) piece=$'\n' ;;
        r*) piece=$'\r' ;;
        t*) piece=$'\t' ;;
        u*)
            code=$((16#${rest:1:4}))
            if ((code >= 0xd800 && code < 0xdc00)) && [[ ${rest:5:2} == '\u' ]]; then
                low=$((16#${rest:7:4}))
                code=$((0x10000 + ((code & 0x3ff) << 10) + (low & 0x3ff)))
                rest=${rest:6}
            fi
            # `\U` writes UTF-8 only in a UTF-8 locale, so one is set here.
            printf -v piece '\\U%08x' "$code"
            LC_ALL=C.UTF-8 printf -v piece "$piece"
            rest=${rest:4}
            ;;
        *) piece=${rest:0:1} ;;
        esac
        made+=$piece
        rest=${rest:1}
    done
    _fnd_text=$made$rest
}

# The same for a head without escapes and, but for the request, without nested values: split at the quotes, ten times
# faster. fnd writes the request last; nothing of it is needed here. Fails where it is not so.
_fnd_parse_flat() {
    local flat=$1 IFS='"' key value i
    local -a pieces
    if [[ $flat == *',"request":{'*']}}' ]]; then
        flat=${flat%%',"request":{'*}
    fi
    if [[ $flat == *\\* || ${flat:1} == *[{[]* ]]; then
        return 1
    fi
    set -f
    # shellcheck disable=SC2206
    pieces=($flat)
    set +f
    _fnd_head=()
    for ((i = 1; i < ${#pieces[@]}; i += 2)); do
        key=${pieces[i]} value=${pieces[i + 1]}
        if [[ $value == : ]]; then
            ((i += 2))
            _fnd_head[$key]=${pieces[i]}
        else
            value=${value#:}
            _fnd_head[$key]=${value%[,\}]}
        fi
    done
}

# Takes the head apart into _fnd_head[KEY]: strings unescaped, numbers as they are, objects as JSON.
_fnd_parse_head() {
    local key before
    _fnd_head=()
    _fnd_rest=$1
    if [[ $1 == *',"request":{'*']}}' ]]; then
        # Up to the last one: a string cannot have this text, but an object before it can.
        _fnd_rest=${1%',"request":{'*}
    fi
    _fnd_rest=${_fnd_rest:1}
    while [[ $_fnd_rest == '"'* ]]; do
        _fnd_string || return 1
        key=$_fnd_text
        _fnd_rest=${_fnd_rest#:}
        before=$_fnd_rest
        _fnd_value || return 1
        if [[ $before == '"'* ]]; then
            _fnd_unescape
            _fnd_head[$key]=$_fnd_text
        else
            _fnd_head[$key]=${before:0:${#before}-${#_fnd_rest}}
        fi
        _fnd_rest=${_fnd_rest#,}
    done
}

# Exports the variables of a request: a JSON object of strings. What the manifest has set as `HTTP_*` stays.
_fnd_export() {
    local name
    _fnd_rest=${1:1}
    while _fnd_string; do
        name=$_fnd_text
        _fnd_rest=${_fnd_rest#:}
        _fnd_string || return 1
        _fnd_rest=${_fnd_rest#,}
        if [[ $name != HTTP_* || ! -v $name ]]; then
            _fnd_unescape
            export "$name=$_fnd_text"
        fi
    done
}

# Sets _fnd_text to `$1` as a JSON string, cut to the largest size of a message.
_fnd_quote() {
    local text=${1:0:4096} control
    text=${text//\\/\\\\}
    text=${text//\"/\\\"}
    text=${text//$'\n'/\\n}
    text=${text//$'\t'/\\t}
    control=$'\x01'-$'\x1f'
    _fnd_text="\"${text//[$control]/ }\""
}


# Reads an Invoke and answers it.
_fnd_serve() {
    local IFS= call=$_fnd_call code DATA
    # An end of file in the middle of a message ends the worker.
    _fnd_read_call || exit 1
    _fnd_run &
    wait $!
    code=$?
    _fnd_reply "$call" "$code"
}

# Reads the head and the parts of an Invoke.
_fnd_read_call() {
    local size head
    _fnd_read_number || return 1
    size=$_fnd_number
    ((_fnd_left -= 4 + size))
    read -r -N "$size" -u 3 head || return 1
    _fnd_parse_flat "$head" || _fnd_parse_head "$head" || return 1
    if [[ -v _fnd_head[data] ]]; then
        _fnd_part "${_fnd_head[data]}" "$_fnd_payload" || return 1
        if ((_fnd_head[data] <= _fnd_data_max)); then
            # `read` ends at the end of the file, or earlier at a NUL byte, which no variable can hold.
            read -r -d '' DATA <"$_fnd_payload"
            ((${#DATA} == _fnd_head[data])) || unset -v DATA
        fi
    fi
    if [[ -v _fnd_head[previous] ]]; then
        _fnd_part "${_fnd_head[previous]}" "$_fnd_before" || return 1
    fi
    : >"$_fnd_out"
    : >"$_fnd_answer"
}

# Runs the handler, in a process of its own.
_fnd_run() {
    trap - TERM
    exec 3>&- >"$_fnd_out"
    if [[ -v _fnd_locale ]]; then
        LC_ALL=$_fnd_locale
    else
        unset -v LC_ALL
    fi
    IFS=$' \t\n'
    export FND_INVOCATION=${_fnd_head[invocation]} FND_ATTEMPT=${_fnd_head[attempt]} FND_POLL=${_fnd_head[poll]}
    export FND_TRIGGER=${_fnd_head[trigger]} TRACEPARENT=${_fnd_head[traceparent]} FND_RESULT=$_fnd_answer
    [[ -v _fnd_head[deadline_ms] ]] && export FND_DEADLINE=${_fnd_head[deadline_ms]}
    [[ -v _fnd_head[context] ]] && export KEPTN_CONTEXT=${_fnd_head[context]} CONTEXT=${_fnd_head[context]}
    [[ -v _fnd_head[content_type] ]] && export FND_CONTENT_TYPE=${_fnd_head[content_type]}
    [[ -v _fnd_head[variables] ]] && _fnd_export "${_fnd_head[variables]}"
    [[ -v _fnd_head[previous] ]] && export FND_PREVIOUS=$_fnd_before
    if [[ -v DATA ]]; then
        export DATA
    fi
    if [[ -v _fnd_head[data] ]]; then
        exec <"$_fnd_payload"
    else
        exec </dev/null
    fi
    eval "$_fnd_options"
    "$_fnd_name"
}

# Prints what the handler printed, and answers.
_fnd_reply() {
    local IFS= printed result has_printed=1 file=$_fnd_out data=null
    _fnd_slurp "$_fnd_out" printed || has_printed=0
    if ((has_printed)); then
        printf %s "$printed"
        result=$printed
    else
        cat "$_fnd_out"
    fi
    if [[ -s $_fnd_answer ]]; then
        file=$_fnd_answer
        _fnd_slurp "$_fnd_answer" result || unset -v result
    elif ((!has_printed)); then
        unset -v result
    fi
    case $2 in
    0)
        if [[ ! -s $file ]]; then
            _fnd_answer_head='{}'
            _fnd_send_result "$1" ""
        elif [[ -v result ]]; then
            _fnd_answer_head="{\"data\":${#result}}"
            _fnd_send_result "$1" "$result"
        else
            _fnd_send_file "$1" "$file"
        fi
        ;;
    75) _fnd_send "$_fnd_error" "$1" '{"kind":"transient","message":"exit 75","printed":true}' ;;
    65) _fnd_send "$_fnd_error" "$1" '{"kind":"failed","message":"exit 65","printed":true}' ;;
    99)
        # Only one JSON value can be given to the next attempt as `previous`.
        if [[ -s $file ]]; then
            _fnd_rest=${result-}
            _fnd_value && _fnd_space && [[ -z $_fnd_rest ]] && data=$result
            if [[ $data == null && ${result-} != null ]]; then
                _fnd_send "$_fnd_error" "$1" \
                    '{"kind":"bad-answer","message":"execute again (exit 99): the data is not one JSON value of at most 64 KiB"}'
                return
            fi
        fi
        _fnd_send "$_fnd_error" "$1" "{\"kind\":\"execute-again\",\"message\":\"exit 99\",\"data\":$data}"
        ;;
    *) _fnd_send "$_fnd_error" "$1" "{\"kind\":\"error\",\"message\":\"exit $2\",\"printed\":true}" ;;
    esac
}

# Reads a file of text into the variable `$2`. Fails where it is large, or has a NUL byte.
_fnd_slurp() {
    local IFS=
    ! read -r -d '' -n "$_fnd_data_max" "$2" <"$1"
}

# Sends a Result with the head _fnd_answer_head and text behind it: call, text.
_fnd_send_result() {
    _fnd_header $((4 + ${#_fnd_answer_head} + ${#2})) "$_fnd_result" 0 "$1"
    _fnd_number_bytes "${#_fnd_answer_head}"
    printf "$_fnd_escapes%s%s" "$_fnd_answer_head" "$2" >&3
}

# Sends a Result whose body is a file: call, file.
_fnd_send_file() {
    local left piece type=$_fnd_result begin=
    left=$(stat -c %s "$2")
    _fnd_answer_head="{\"data\":$left}"
    _fnd_escapes=
    _fnd_number_bytes "${#_fnd_answer_head}"
    begin=$_fnd_escapes$_fnd_answer_head
    local before=$((4 + ${#_fnd_answer_head}))
    while ((left > 0)); do
        piece=$((left < _fnd_frame_max - before ? left : _fnd_frame_max - before))
        ((left -= piece, 1))
        _fnd_header $((before + piece)) "$type" $((left > 0)) "$1"
        printf "$_fnd_escapes$begin" >&3
        head -c "$piece" >&3
        type=$_fnd_body before=0 begin=
    done <"$2"
}


# Reports why the file could not be loaded: the last line that it or the shell printed.
_fnd_not_loaded() {
    local code=$1 line last=
    while IFS= read -r line || [[ -n $line ]]; do
        printf '%s\n' "$line" >&2
        # After a syntax error bash repeats the line of the file.
        [[ -n $line && $line != *": line "*": \`"*"'" ]] && last=$line
    done <"$_fnd_out"
    _fnd_quote "${last:-the file exits with code $code instead of defining a function}"
    _fnd_send "$_fnd_error" 0 "{\"kind\":\"error\",\"message\":$_fnd_text}"
    trap - EXIT
    exit 1
}

# Writes the options of the shell to a file: in a command substitution `set -e` is not in force.
_fnd_options_to() {
    {
        set +o
        shopt -p
    } >"$1"
}

# Sources the file, and records the options that it sets: they hold for the handler, not for the shim.
_fnd_load() {
    local -a _fnd_own _fnd_set
    local _fnd_i _fnd_line
    _fnd_options_to "$_fnd_answer"
    mapfile -t _fnd_own <"$_fnd_answer"
    trap '_fnd_not_loaded $?' EXIT
    if ((${#_fnd_given[@]})); then
        set "${_fnd_given[@]}"
    fi
    # Not behind `||` or `if`, where `set -e` of the file would have no effect.
    # shellcheck disable=SC1090
    source "$1" 2>"$_fnd_out"
    _fnd_options_to "$_fnd_answer"
    for _fnd_line in "${_fnd_own[@]}"; do
        eval "$_fnd_line"
    done
    trap - EXIT
    IFS=$' \t\n'
    mapfile -t _fnd_set <"$_fnd_answer"
    _fnd_options=
    for _fnd_i in "${!_fnd_set[@]}"; do
        [[ ${_fnd_set[_fnd_i]} == "${_fnd_own[_fnd_i]}" ]] || _fnd_options+=${_fnd_set[_fnd_i]}$'\n'
    done
    _fnd_name=${FUNC_HANDLER:-handler}
    if ! declare -F "$_fnd_name" >/dev/null; then
        [[ -s $_fnd_out ]] || echo "the file has no function \`$_fnd_name\`" >"$_fnd_out"
        _fnd_not_loaded 1
    fi
    while IFS= read -r _fnd_line; do
        printf '%s\n' "$_fnd_line" >&2
    done <"$_fnd_out"
}

# At the timeout: the output printed until then is log.
_fnd_terminated() {
    [[ -s $_fnd_out ]] && cat "$_fnd_out"
    exit 143
}

declare -A _fnd_head
[[ -v LC_ALL ]] && _fnd_locale=$LC_ALL
_fnd_load "$1"
set --
# From here on a character is one byte. The locale is set only once, since each change takes 0.1 ms.
LC_ALL=C
trap _fnd_terminated TERM
_fnd_send 1 0 '{"protocol":1,"concurrency":1,"variables":true}'
while _fnd_read_header; do
    if ((_fnd_type == _fnd_stop)); then
        break
    fi
    # Not behind `||`, where `set -e` of the function would have no effect.
    _fnd_serve
done
exit 0
