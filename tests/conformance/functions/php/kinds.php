<?php
function handler($event, $context)
{
    switch ($event->data) {
        case 'error':
            throw new RuntimeException('it broke');
        case 'transient':
            throw new Fnd\TransientException('it broke');
        case 'failed':
            throw new Fnd\FailedException('it broke');
        case 'again':
            $seen = $context->previous->seen ?? 0;
            throw new Fnd\ExecuteAgainException('it broke', ['seen' => $seen + 1]);
    }
    return 'fine';
}
