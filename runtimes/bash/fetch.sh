# Fetches the code of a function (docs/sources.md): `bash fetch.sh ENTRY git REPOSITORY REF DIRECTORY
# [HOST-KEY]...`, or `bash fetch.sh ENTRY url URL SHA256 FILE`.
#
# fnd runs it as the function `fnd-build`. It leaves one file in `$STATE_DIRECTORY/NAME`, and tells by the file
# `.fnd-packages` that it is complete, and what it is; NAME is that of the directory above the entry's. Exit 75: the network
# is the reason, and another attempt may succeed. Exit 65: it is not. A failed one leaves nothing.
set -u -o pipefail
export LC_ALL=C.UTF-8

# Fails with a message; the network is the reason (75) or not (65).
fail() {
    rm -rf -- "$tree"
    printf '%s\n' "$2" >&2
    exit "$1"
}

# Prints why git failed, and ends.
git_failed() {
    local said why server
    cat "$TMPDIR/said" >&2
    said=$(grep -E '^(fatal|error|remote|ssh|.*@.*): ' "$TMPDIR/said")
    why=$(sed -n 's/^\(fatal\|error\|remote\): //p' <<<"$said" | head -n 1)
    why=${why:-${said%%$'\n'*}}
    if grep -qiE 'could not read (username|password)|authentication failed|permission denied|error: 40[13]' <<<"$said"; then
        # Of a key that it can't use, ssh only says that the server refused it.
        if [[ -e $HOME/key ]] && ! said=$(ssh-keygen -y -P '' -f "$HOME/key" 2>&1 >/dev/null); then
            fail 65 "ssh cannot use the secret in \`key\`, which must be a private key without a passphrase: ${said##*: }"
        fi
        [[ ! -e $KEY ]] || fail 65 "the repository does not let fnd in with the secret in \`key\`: $(grep -iE 'permission denied|authentication failed|error: 40[13]' "$TMPDIR/said" | head -n 1)"
        fail 65 "the repository does not let fnd in: name a secret with its key (\`key\` in \`[source]\`): ${why:-git failed}"
    elif grep -q 'Host key verification failed' "$TMPDIR/said"; then
        server=$(sed -n 's/^Host key for \(.*\) has changed and you.*/\1/p' "$TMPDIR/said")
        [[ -z $server ]] || fail 65 "the server $server has another host key than \`known_hosts\` says: somebody else may answer in its place. Ask its owner before you change the line"
        server=$(sed -n 's/^No .* host key is known for \(.*\) and you.*/\1/p' "$TMPDIR/said")
        fail 65 "ssh does not know the server${server:+ $server}: write its host key into \`known_hosts\` of \`[source]\`, or into /etc/ssh/ssh_known_hosts (\`ssh-keyscan\` prints it; compare it with what the server's owner says)"
    elif grep -qiE 'could not resolve|timed out|connection|unable to access|early EOF|hung up|RPC failed|error: 5[0-9][0-9]' <<<"$said" &&
        ! grep -qiE 'error: 4[0-9][0-9]|not found' <<<"$said"; then
        fail 75 "${why:-git failed}"
    fi
    fail 65 "${why:-git failed}"
}

# Refuses files of the commit that no archive can have, before they are written. fnd checks all else as it unpacks them.
check_files() {
    local mode size path sum=0 most=0 largest=
    while read -r mode _ _ size path; do
        [[ $mode != 160000 ]] ||
            fail 65 "\`$path\` is a submodule, and fnd fetches none: put its files into the repository, or name another directory with \`dir\`"
        ((sum += size))
        ((size <= most)) || { most=$size largest=$path; }
    done < <(git -C "$repository" ls-tree -r -l "$commit:$directory")
    ((sum <= 512 << 20)) ||
        fail 65 "the files are larger than 512 MiB together; the largest is \`$largest\` with $((most >> 20)) MiB: keep data elsewhere, for example in \$STATE_DIRECTORY"
}

# Fetches a commit. Nothing is kept from one time to the next: other builds run as this user.
fetch_git() {
    local url=$1 ref=$2 directory=$3 repository=$TMPDIR/repository commit
    command -v git >/dev/null || fail 65 'there is no git: `apt install git`'
    export GIT_CONFIG_GLOBAL=$HOME/gitconfig GIT_CONFIG_NOSYSTEM=1 GIT_TERMINAL_PROMPT=0 GIT_ALLOW_PROTOCOL=https:ssh:file
    # No host key is learned at the first contact: nothing that this user can write would be safe from other builds.
    export GIT_SSH_COMMAND='ssh -o BatchMode=yes -o ConnectTimeout=20 -o ServerAliveInterval=20 -o StrictHostKeyChecking=yes' KEY=$CREDENTIALS_DIRECTORY/key
    if (($# > 3)); then
        printf '%s\n' "${@:4}" >"$HOME/known_hosts"
        GIT_SSH_COMMAND+=" -o GlobalKnownHostsFile=/dev/null -o UserKnownHostsFile=$HOME/known_hosts"
    else
        GIT_SSH_COMMAND+=' -o UserKnownHostsFile=/dev/null'
    fi
    # Only the branches and the files of the repository are used, whoever owns it.
    printf '[safe]\n\tdirectory = *\n[init]\n\tdefaultBranch = main\n[http]\n\tlowSpeedLimit = 100\n\tlowSpeedTime = 60\n' >"$GIT_CONFIG_GLOBAL"
    if [[ -e $KEY ]] && grep -q '^-----BEGIN ' "$KEY"; then
        # ssh wants a line feed at the end, which a secret may lack.
        (umask 077 && { cat "$KEY" && echo; } >"$HOME/key")
        GIT_SSH_COMMAND+=" -o IdentitiesOnly=yes -i $HOME/key"
    elif [[ -e $KEY ]]; then
        # git asks this program for user and password; no command line has them.
        # shellcheck disable=SC2016
        printf '[credential]\n\thelper = "!f() { IFS=: read -r user password <\\"$KEY\\"; echo \\"username=$user\\"; echo \\"password=$password\\"; }; f"\n' >>"$GIT_CONFIG_GLOBAL"
    fi
    git init -q --bare "$repository" || fail 65 'git failed'
    echo "+ git fetch $url ${ref:-HEAD}"
    # Not every server gives a part of a repository, or a commit by its name.
    if ! git -C "$repository" fetch -q --depth 1 --no-tags -- "$url" "${ref:-HEAD}" >"$TMPDIR/said" 2>&1; then
        ! grep -qiE 'permission denied|authentication failed|host key verification|could not (resolve|connect)' "$TMPDIR/said" || git_failed
        git -C "$repository" fetch -q --tags -- "$url" '+refs/heads/*:refs/heads/*' >"$TMPDIR/said" 2>&1 || git_failed
        commit=$(git -C "$repository" rev-parse -q --verify "${ref:-HEAD}^{commit}") ||
            fail 65 "the repository has no branch, tag or commit \`$ref\`"
    else
        commit=$(git -C "$repository" rev-parse -q --verify 'FETCH_HEAD^{commit}') || fail 65 "\`$ref\` is no commit"
    fi
    git -C "$repository" rev-parse -q --verify "$commit:$directory" >/dev/null ||
        fail 65 "commit ${commit:0:12} has no directory \`$directory\`"
    [[ $(git -C "$repository" cat-file -t "$commit:$directory") == tree ]] ||
        fail 65 "\`$directory\` is no directory in commit ${commit:0:12}"
    check_files
    # The directory at the top is removed again; if fnd refuses a file of it, the message names the commit so.
    git -C "$repository" archive --format=tar --prefix="${commit:0:12}/" -o "$tree/source.tar" "$commit:$directory" ||
        fail 65 'git failed to write the files'
    echo "commit $commit"
    printf 'commit %s\n' "$commit" >"$tree/.fnd-packages"
}

# Fetches a file.
fetch_url() {
    local url=$1 expected=$2 file=$tree/$3 protocols='=https' status why found
    command -v curl >/dev/null || fail 65 'there is no curl: `apt install curl`'
    echo "+ curl $url"
    # Of a file whose length the server does not say, this is the only limit.
    [[ $(ulimit -f) != unlimited ]] || ulimit -f $((512 * 1024))
    # Without a sum, a server that sends on to `http://` is not followed.
    [[ -z $expected ]] || protocols='=http,https'
    why=$(curl -sS -f -L --globoff --proto "$protocols" --max-redirs 5 --connect-timeout 20 --speed-limit 100 --speed-time 60 \
        --max-filesize 536870912 -o "$file" -- "$url" 2>&1)
    status=$?
    case $status in
        0) ;;
        # A name, a connection, a part of a file, a time limit.
        5 | 6 | 7 | 16 | 18 | 28 | 35 | 52 | 55 | 56 | 92) fail 75 "$why" ;;
        22) [[ $why =~ error:\ (5..|408|429) ]] && fail 75 "$why" || fail 65 "$why" ;;
        # Its length as the server says it; SIGXFSZ.
        63 | 153) fail 65 'the file is larger than 512 MiB' ;;
        *) fail 65 "$why" ;;
    esac
    found=$(sha256sum <"$file")
    found=${found%% *}
    [[ -z $expected || $found == "$expected" ]] ||
        fail 65 "the SHA-256 of the file is $found, and the manifest says $expected"
    echo "sha256 $found"
    printf 'sha256 %s\n' "$found" >"$tree/.fnd-packages"
}

code=$(cd "$(dirname "$1")" && pwd -P)
tree=$STATE_DIRECTORY/$(basename "$(dirname "$code")")
export HOME=$STATE_DIRECTORY/home TMPDIR=$STATE_DIRECTORY/tmp
trap 'rm -rf -- "$HOME" "$TMPDIR"' EXIT
mkdir -p "$tree" "$HOME" "$TMPDIR"
[[ -z ${FND_OFFLINE-} ]] || fail 65 'nothing is fetched: `[build] offline` of fnd.toml is set'
case $2 in
    git) fetch_git "${@:3}" ;;
    *) fetch_url "$3" "$4" "$5" ;;
esac
