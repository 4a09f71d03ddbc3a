<?php
function handler($event, $context)
{
    return ['number' => NAN];
}
