#!/usr/bin/env bash
# Holds fnd-spawner, the only program that runs as root, to what docs/design/processes.md promises: readable in an hour, and no
# parser or runtime in it that has no business there. Looks at the sources, at what they depend on, and at the programs that
# are named (none: the one of the development build, where it is there).
set -euo pipefail
# shellcheck source=scripts/lib.sh
. "$(dirname "$0")/lib.sh"
cd "$root"

# Lines of code: the lines that are read as a program. Blank lines and comment lines don't count (the comments are there to
# make the hour enough), nor do tests: a `#[cfg(test)]` module, always the last thing in its file, and files of tests.
code_lines() {
    find spawner/src -name '*.rs' ! -name tests.rs -exec awk '
        FNR == 1 { test = 0 }
        /^#\[cfg\(test\)\]/ { test = 1 }
        !test && !/^[ \t]*($|\/\/)/ { lines++ }
        END { print lines + 0 }' {} +
}
lines=$(code_lines)
# A ceiling that is lowered, and raised only for code that needs root: 47 lines for handlers (their socket as descriptor 3, what is handed over of them, and
# looking whether functions can read the shim; reading on where answers meet a closed connection). Two for HTTP: the umask of a program
# that shares a socket with fnd, and the variables it is told. Four for
# the identity of an interpreter, so that a replaced one makes a new version. 740 for what an fnd that was taken over, a function or an
# author could make it do: deriving names and manifests, following links one by one, copying, removing and closing in helpers, what
# functions may have as other users, kinds of descriptors, sums and homes of the uid table.
# docs/design/processes.md says why it is not 3,000.
# 70 to remove what a killed spawner's runs left, and to name what deleted functions left.
# 67 to keep the last good configuration: without it a typing mistake in fnd.toml ends every function at the next restart.
# 230 for starts that a function stops, which hung launcher, takeover and stop; and for waiting for orphans.
# 34 for an ipc namespace a launcher and a memory limit on all functions together: what outlived runs was bounded by nothing.
# 49 for a judge of its own for each owner of files. 29 for a worker's number, a signal and a queue that an fnd that was taken over could misuse.
# 160 for what is true of a failed start: whether the machine has run out of something (an error number from each step that can say so, and the
# function's own limits beside it), and all descriptors taken before the order, so that nothing is begun and then given back; for time limits
# that also hold if fnd does nothing; and for adoption records of any length.
# 68 to lock `[users] range` between instances: two of them gave the same users to different functions, which could read and kill each other.
# 84 for the directories of HTTP functions' sockets: fnd made them, so functions could leave there what fnd could not remove, and only root
# can give them to a function.
# 49 for names of functions' users: without them ssh, rsync, systemctl and whoami fail in a function, and only root can write the records.
# 170 to open the secrets that routes of the public listener name: only root can read them, and only this program knows whose files name
# them; what it refuses (links, other owners, modes, sizes, names that no installed file has) is most of it.
# 20 for the watchers of files: only this program can start a process as a function's user, and their rules must not come from fnd, which
# could have any user's files moved or deleted then.
# 806 for the sandbox: only root can make its mounts and namespaces. A third of it are the view of the files, a quarter the filters of system
# calls, the rest its accounts, the init, probing what the machine can give, and refusing what it can't.
# 440 for secrets and service bindings of functions: only root can read them and make the file system of the function's own. Half of it reads
# and checks them, in a helper, so that this program's own memory never has a value; the rest hands them to launchers, and fingerprints to fnd.
# 27 for the directories in which fnd listens for functions with `[access]`: only root can let fnd and one function into a directory, and
# no judge may give a function of other people such a directory.
# 100 for secrets that lie encrypted beside functions: only root can read the key, and only the helper may have key and value; it finds and
# opens the files and asks an unprivileged child, which has the library.
# 170 for archives that are functions: only root can write the staging directory, and it may believe nothing that the child says that reads
# them; it starts the child, takes its files, and gives them to the code for directories.
# 70 for the files that Landlock closes where the machine gives no mount namespaces: only the launcher can put the rules around a function,
# and they are made from the same table as the mounts.
# 80 to bound what runs hold in TMPDIR, by a file system in memory that outlives launchers: only root can mount it.
# 115 for releases: only root can read the copy of a version and say whose files it was made of. It is read by the code that reads files; the
# rest keeps and checks its origin, and answers with its files.
# 5 for programs that are compiled, for builds without network, and for the sizes of trees: programs run in place of the interpreter, which is their compiler.
# 8 for the directory of uploads, whose files are never trusted: fnd, which could be taken over, writes them.
# 106 for code from repositories and web servers, and secrets of builds: only root can write the trees where it lies, and read the secrets.
# The code for archives unpacks it.
# 11 for checks of syntax: only this program knows the files that are read and the user that reads them.
# 6 so that a tree that is there can be used without the secrets of its build.
# 49 for several builds at once: only root can give the version of a build, with its secrets, to another user.
# 35 for dependencies that are built anew: only root can name and number the trees.
# 48 for files of other systems: only root may read them, and those beside one that it may name; the child that unpacks archives makes the function.
# 36 to open the YAML files with Secrets of Kubernetes beside functions: fnd must not see the values, so only root can open them.
# 114 to make a script's next start ready after its last run, to take it, and to remove a leaf after the end was reported: only root can make the leaf and give the pipes and files to a user.
# 124 for the start with ten thousand functions: facts about directories that many of them share are found once, the file is opened beneath the
# directory that was checked, requests are sent to the judge ahead of its answers, and what is installed already is compared with few calls.
# Only this program opens and checks these files.
# 27 for workers that connect to fnd: only root can make the socket in a directory that then belongs to the function; 6 for the size of
# handlers' sockets, whose two ends only this program has.
# 33 for lines of `use` and `impl` (what installs was one file of 905 lines, and is five), and for opening the files of a leaf before its run.
# 182 so that an fnd that was taken over gets no tree of anything but its own build, and each trust builds as a user of its own: only this program
# knows whose the files are, what ran in a home, and makes the trees.
# 111 so that a stored release gets back nothing that its files no longer ask for, and a YAML file takes no other function's name: only this program reads
# the files and knows whose they are.
# 4 for the umask of functions: only the process that becomes the program can set it. Warnings about interpreters that were passed over are gone.
# 6 so that no plan of files which are not root's has a named user or groups: this program trusts no judge.
# 74 to tell a launcher that hangs from one without CPU time, and a stop of this program itself: only it knows its launchers.
# 6 to say that nothing but the disk bounds a TMPDIR: only this program knows its mounts.
# 309 for a user and a home of its own for each owner of a name (270: only root gives users, and only this program knows whose files it reads),
# for a damaged table of users that is set aside, for connections that a helper closes, and for hiding the functions directories.
# 8 so that a home or a directory of runs that cannot be read stops neither all functions nor all sweeps, and is named.
# 3 for `[service] stop_signal`: only this program can signal the processes of other users, and it believes no judge about which signal.
# 0 for capabilities of functions of root, which only this program can leave to a process: as many lines that said a thing twice are gone.
ceiling=8074
((lines <= ceiling)) || die "spawner/src has $lines lines of code, more than $ceiling"

tree=$(cargo tree --locked -p fnd-spawner -e normal --prefix none --format '{p}')
ours=$(sed -n 's/^\(fnd-[a-z]*\) v.*/\1/p' <<<"$tree" | sort -u | tr '\n' ' ')
[[ $ours == "fnd-spawner fnd-wire " ]] || die "fnd-spawner may link only fnd-wire of our own crates, and links: $ours"
for banned in age bzip2 flate2 lzma-rust2 ruzstd tar serde serde_json serde_core toml toml_edit tokio hyper mio async-io; do
    if grep -q "^$banned v" <<<"$tree"; then
        die "fnd-spawner depends on $banned: $(cargo tree --locked -p fnd-spawner -e normal -i "$banned" --depth 2 | tr '\n' ' ')"
    fi
done

# Features of crates are united over what is built together, so the tree alone does not prove which code a program contains.
((${#@} > 0)) || set -- "$target/debug/fnd-spawner"
for program in "$@"; do
    [[ -e $program ]] || continue
    symbols=$("${NM:-nm}" "$program")
    if symbol=$(grep -m1 -E 'serde|toml|tokio|5hyper|3mio' <<<"$symbols"); then
        die "$program has a parser or a runtime in it: ${symbol##* }"
    fi
    say "$program: $(wc -l <<<"$symbols") symbols, none of a parser or a runtime"
done
say "spawner/src: $lines lines of code (ceiling $ceiling); $(sort -u <<<"$tree" | wc -l) crates, none of them a parser or a runtime"
