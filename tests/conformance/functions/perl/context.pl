sub handler {
    my ($event, $context) = @_;
    return { map { $_ => $context->{$_} } qw(invocation attempt poll trigger deadline traceparent previous) };
}
1;
