<?php
// A handler: fnd loads this file once, then calls `handler` for each invocation.
//
// What it prints is the log. What it returns is the result: text, or anything that JSON can say. An exception is a failure;
// `Fnd\TransientException` is tried again if [retry] allows it, `Fnd\FailedException` never.

function handler($event, $context)
{
    $context->log->info('called', ['attempt' => $context->attempt]);
    return ['hello' => $event->data->name ?? 'world'];
}
