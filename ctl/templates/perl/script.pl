# A script: each run is a process of its own.
#
# Standard input is the payload, and so is the variable DATA. Standard output is the result; standard error is the log.
# Exit codes: 0 success, 75 try again later, 65 never try again, others an error.
use strict;
use warnings;
use JSON::PP;

my $payload = decode_json(do { local $/; <STDIN> });
print STDERR "run $ENV{FND_INVOCATION} attempt $ENV{FND_ATTEMPT}\n";
my @words = split ' ', $payload->{text};
print encode_json({ words => scalar @words }), "\n";
