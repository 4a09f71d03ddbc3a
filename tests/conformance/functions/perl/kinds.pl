sub handler {
    my ($event, $context) = @_;
    my $kind = $event->{data};
    die "it broke\n" if $kind eq 'error';
    die { kind => 'transient', message => 'it broke' } if $kind eq 'transient';
    die { kind => 'failed', message => 'it broke' } if $kind eq 'failed';
    if ($kind eq 'again') {
        my $seen = ($context->{previous} // { seen => 0 })->{seen} + 1;
        die { kind => 'execute-again', message => 'it broke', data => { seen => $seen } };
    }
    return 'fine';
}
1;
