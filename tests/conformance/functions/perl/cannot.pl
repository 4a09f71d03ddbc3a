sub handler { return sub { 1 } }
1;
