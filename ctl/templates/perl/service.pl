# A service: fnd keeps it running, restarts it when it ends, and stops it with SIGTERM.
#
# Standard output and standard error are the log: `fndctl logs` shows it.
use strict;
use warnings;
use POSIX qw(strftime);

# Each line is seen when it is printed.
$| = 1;
$SIG{TERM} = sub { print "stopping\n"; exit };

print "started\n";
while (1) {
    print strftime('%Y-%m-%dT%H:%M:%SZ', gmtime), "\n";
    sleep 10;
}
