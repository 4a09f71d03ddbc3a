# A program that serves HTTP: fnd starts it when it is called, keeps it running, and passes requests to it.
#
# It listens on the port in $ENV{PORT}. What it prints is the log. Any framework works in the same way; this one uses only
# what comes with Perl, and answers one request at a time.
use strict;
use warnings;
use IO::Socket::INET;
use JSON::PP;

my $server = IO::Socket::INET->new(LocalAddr => '127.0.0.1', LocalPort => $ENV{PORT}, Listen => 64) or die "cannot listen: $@\n";
while (my $client = $server->accept) {
    my (undef, $path) = split ' ', <$client> // '';
    my %headers;
    while (defined(my $line = <$client>)) {
        my ($name, $value) = $line =~ /^([^:\s]+):\s*(.*?)\s*$/ or last;
        $headers{ lc $name } = $value;
    }
    my $body = '';
    read($client, $body, $headers{'content-length'} // 0);
    my $text = encode_json({ path => $path, bytes => length $body });
    print $client "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n",
        'content-length: ', length $text, "\r\nconnection: close\r\n\r\n", $text;
    close $client;
}
