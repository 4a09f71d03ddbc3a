sub handler {
    my ($event) = @_;
    print "out $event->{data}";
    print STDERR "err $event->{data}";
    return $event->{data};
}
1;
