<?php
// Greets; the same worker answers call after call. GET with a query: /v1/functions/web%2Fhello-php/http/?name=Ada
// /// fnd
// description = "Greets who is named in the query"
// labels = { team = "web" }
// [limits]
// timeout = "5s"
// ///
function handler($event, $context)
{
    static $calls = 0;
    $request = $event->extensions->request;
    return ['hello' => $request->query['name'] ?? 'you', 'method' => $request->method, 'calls' => ++$calls];
}
