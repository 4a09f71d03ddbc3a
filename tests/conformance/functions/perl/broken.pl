sub handler {
