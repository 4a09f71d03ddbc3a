<?php
// Takes an order and says what it costs. POST: {"items": [{"price": 2.5, "count": 2}]}
// /// fnd
// description = "Adds up an order, or says what is wrong with it"
// labels = { team = "web" }
// [limits]
// timeout = "5s"
// ///
function handler($event, $context)
{
    $items = $event->data->items ?? [];
    if (!$items) {
        return new Fnd\Response(['error' => 'an order has `items`'], status: 422);
    }
    $total = 0;
    foreach ($items as $item) {
        $total += $item->price * ($item->count ?? 1);
    }
    $context->log->info('order', ['items' => count($items), 'total' => $total]);
    return ['total' => round($total, 2)];
}
