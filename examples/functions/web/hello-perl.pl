# Greets. GET of a route: the query is in a variable. Without a route: fndctl invoke web/hello-perl
# /// fnd
# description = "Greets who is named in the query"
# labels = { team = "web" }
# on_load = false
# [limits]
# timeout = "5s"
# ///
use strict;
use warnings;
use JSON::PP;

my ($name) = ($ENV{QUERY_STRING} // '') =~ /(?:^|&)name=([^&]*)/;
$name = ($name // 'you') =~ tr/+/ /r;
$name =~ s/%([0-9A-Fa-f]{2})/chr hex $1/ge;
utf8::decode($name);
print encode_json({ hello => $name, method => $ENV{REQUEST_METHOD} }), "\n";
