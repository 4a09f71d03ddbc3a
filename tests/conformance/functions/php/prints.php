<?php
function handler($event, $context)
{
    echo "out $event->data\n";
    fwrite(STDERR, "err $event->data\n");
    return $event->data;
}
