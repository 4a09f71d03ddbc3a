<?php
function handler($event, $context)
{
    return $event->data;
}
