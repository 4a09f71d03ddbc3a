# Takes an order and says what it costs. POST: {"items": [{"price": 2.5, "count": 2}]}
# /// fnd
# description = "Adds up an order, or says what is wrong with it"
# labels = { team = "web" }
# on_load = false
# [limits]
# timeout = "5s"
# ///
use strict;
use warnings;
use JSON::PP;

my $order = eval { decode_json(do { local $/; <STDIN> }) };
my @items = ref $order eq 'HASH' && ref $order->{items} eq 'ARRAY' ? @{ $order->{items} } : ();
if (!@items) {
    print STDERR "an order has `items`\n";
    exit 65;
}
my $total = 0;
$total += $_->{price} * ($_->{count} // 1) for @items;
print encode_json({ total => 0 + sprintf('%.2f', $total) }), "\n";
