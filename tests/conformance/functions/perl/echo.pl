sub handler {
    my ($event, $context) = @_;
    return $event->{data};
}
1;
