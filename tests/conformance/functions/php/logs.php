<?php
function handler($event, $context)
{
    $context->log->warning('hello', ['items' => 3]);
    return 'logged';
}
