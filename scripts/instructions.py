"""The two parts of `make instructions` that are no shell: see instructions.sh.

    instructions.py --without-auxv COMMAND...                     runs a command that may not ask the kernel where the vDSO is
    instructions.py CALLS THREAD NUMBERS IDS TRACE PROFILE...     prints the tables

NUMBERS and IDS have the names of the threads, a line each: `3 ledger`, `4711 ledger`. TRACE is the output of `strace -f`; a PROFILE is
callgrind's file of one thread, whose number it ends with. No path of the machine is printed.
"""

import collections
import ctypes
import os
import pathlib
import platform
import re
import struct
import sys

ROWS = 40
WIDEST = 110

# The lines of callgrind's format (Callgrind Format Specification, manual of valgrind): a name that is given a number or used by it,
# and a cost: a line number, perhaps relative to the one before, and instructions.
NAME = re.compile(r"(c?)(ob|fl|fi|fe|fn)=\((\d+)\)(?: (.*))?$")
COST = re.compile(r"[-+*\d]\S* (\d+)$")

# The crates of source files: of a registry, of Rust, of the project. Others belong to the library that they are linked into.
CRATES = [
    (re.compile(r"/registry/src/[^/]+/(.+?)-\d"), "{}"),
    (re.compile(r"^/(?:rustc/[^/]+/library|rust/deps)/(.+?)(?:-\d[^/]*)?/"), "rust: {}"),
    (re.compile(r"/([a-z]+)/src/"), "fnd: {}"),
]


class Profile:
    """The instructions of one thread, by function and by crate."""

    def __init__(self, lines):
        self.own = collections.Counter()
        self.called = collections.Counter()
        self.crates = collections.Counter()
        names = collections.defaultdict(dict)
        at, is_call = {}, False
        for line in lines:
            if found := NAME.match(line):
                callee, kind, number, name = found.groups()
                kind = "file" if kind in ("fl", "fi", "fe") else kind
                if name is not None:
                    names[kind][number] = name
                at[callee + kind] = names[kind][number]
            elif line.startswith("calls="):
                is_call = True  # the next line has the cost of the callee
            elif found := COST.match(line):
                self.add(at, int(found[1]), is_call)
                is_call = False

    def add(self, at, cost, is_call):
        if not is_call:
            self.own[at["fn"]] += cost
            self.crates[crate(at["file"], at["ob"])] += cost
        elif at["cfn"] != at["fn"]:  # the outer call of a function that calls itself has the inner ones
            self.called[at["fn"]] += cost

    def total(self):
        return sum(self.own.values())

    def with_callees(self):
        """Instructions with those of the functions that are called. Functions that call each other count more than once."""
        total = self.total()
        return collections.Counter({name: min(self.own[name] + self.called[name], total) for name in self.own | self.called})


def crate(file, program):
    for place, name in CRATES:
        if found := place.search(file):
            return name.format(found[1])
    return pathlib.PurePath(program).name


def read_names(path):
    return dict(line.split(" ", 1) for line in pathlib.Path(path).read_text().splitlines())


def system_calls(trace, names):
    """Counts system calls by thread and name."""
    counted = collections.Counter()
    for line in trace:
        # `4711  read(...`: a call that was interrupted by others has a second line, `<... read resumed>`.
        if found := re.match(r"(\d+) +([a-z_0-9]+)\(", line):
            counted[f"{names.get(found[1], 'a thread that ended')}: {found[2]}"] += 1
    return counted


def table(title, counted, calls, digits):
    """Prints what comes to at least one of the last digit a call."""
    print(f"\n{title}")
    for name, count in counted.most_common():
        if count * 10**digits >= calls:
            print(f"{count / calls:9,.{digits}f}  {name}")


def functions(title, order, profile, calls):
    print(f"\n{title}\n{'own':>9} {'':>6} {'with callees':>12}  function")
    own, inclusive, total = profile.own, profile.with_callees(), max(profile.total(), 1)
    for name, _ in order.most_common(ROWS):
        shown = name if len(name) <= WIDEST else name[: WIDEST - 3] + "..."
        print(f"{own[name] / calls:9,.0f} {own[name] / total:6.1%} {inclusive[name] / calls:12,.0f}  {shown}")


def report(calls, thread, numbers, ids, trace, *paths):
    names, profiles = read_names(numbers), {}
    for path in paths:
        number = path.rpartition("-")[2].lstrip("0")
        with open(path) as lines:
            profiles[names.get(number, f"thread {number}, which ended")] = Profile(lines)
    if thread not in profiles:
        sys.exit(f"instructions: there is no thread `{thread}`: the threads are {', '.join(profiles)}")
    totals = collections.Counter({name: profile.total() for name, profile in profiles.items()})
    table("Instructions a call, by thread", totals, calls, 0)
    chosen = profiles[thread]
    table(f"Instructions of the thread {thread} a call, by the crate of the line", chosen.crates, calls, 0)
    functions(f"By function: the {ROWS} with the most of their own", chosen.own, chosen, calls)
    # Not the frames below which everything happens.
    parts = {name: count for name, count in chosen.with_callees().items() if count < chosen.total()}
    functions(f"By function: the {ROWS} with the most, their callees included", collections.Counter(parts), chosen, calls)
    with open(trace) as lines:
        table("System calls a call, by thread", system_calls(lines, read_names(ids)), calls, 2)


def without_auxv(command):
    """Runs a command whose prctl(PR_GET_AUXV) fails.

    Valgrind unmaps the vDSO and hides it from /proc/self/auxv. Before 3.22 it lets this call through to the kernel, which says where
    the vDSO was, and rustix reads there.
    """
    no_new_privs, set_seccomp, mode_filter, get_auxv = 38, 22, 2, 0x41555856
    prctl = {"x86_64": 157, "aarch64": 167}[platform.machine()]
    load, equal, answer = 0x20, 0x15, 0x06
    errno_einval, allow = 0x00050000 | 22, 0x7FFF0000
    # struct seccomp_data: the number of the call, and its first argument at 16.
    steps = [(load, 0, 0, 0), (equal, 0, 3, prctl), (load, 0, 0, 16), (equal, 0, 1, get_auxv), (answer, 0, 0, errno_einval), (answer, 0, 0, allow)]
    code = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *step) for step in steps))
    program = ctypes.create_string_buffer(struct.pack("HxxxxxxP", len(steps), ctypes.addressof(code)))
    libc = ctypes.CDLL(None, use_errno=True)
    if os.geteuid() != 0:
        libc.prctl(no_new_privs, 1, 0, 0, 0)
    if libc.prctl(set_seccomp, mode_filter, program) != 0:
        raise OSError(ctypes.get_errno(), "failed to set a filter of system calls")
    os.execvp(command[0], command)


if __name__ == "__main__":
    if sys.argv[1] == "--without-auxv":
        without_auxv(sys.argv[2:])
    else:
        report(int(sys.argv[1]), *sys.argv[2:])
