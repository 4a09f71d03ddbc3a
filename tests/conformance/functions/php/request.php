<?php
function handler($event, $context)
{
    $request = $event->extensions->request;
    return [
        'method' => $request->method,
        'path' => $request->path,
        'query' => $request->query['a'],
        'header' => $request->header('X-Name'),
        'body' => $request->body,
        'type' => $event->{'event-type'},
        'id' => $event->{'ce-id'},
    ];
}
