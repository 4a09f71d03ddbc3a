<?php
function handler($event, $context)
{
    $answer = [];
    foreach (['invocation', 'attempt', 'poll', 'trigger', 'deadline', 'traceparent', 'previous'] as $name) {
        $answer[$name] = $context->$name;
    }
    return $answer;
}
