# Checks the files of several functions: PATH MANY COMMAND..., with an archive of f/FUNCTION/PATH as standard input.
# A line of the result is `FUNCTION EXIT-CODE`; the lines of the output follow, each behind a space, so that none looks like a result.
path=$1 many=$2
shift 2
cd "$TMPDIR" && tar -xmf - || exit 126
out=$PWD/out
# If all are good, one process is enough. Else each has its own, which says what is wrong with which one.
[ "$many" ] && "$@" f/*/"$path" >"$out" 2>&1 </dev/null && good=1
for function in f/*; do
    code=0
    if [ ! "$good" ]; then
        cd "$function" || exit 126
        "$@" ${many:+"$path"} >"$out" 2>&1 </dev/null
        code=$?
        cd ../..
    fi
    echo "${function#f/} $code"
    [ "$code" = 0 ] || { head -c 4000 "$out" && echo; } | sed 's/^/ /'
done >"$FND_RESULT"
