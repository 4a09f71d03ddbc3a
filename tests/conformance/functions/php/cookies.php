<?php
function handler($event, $context)
{
    return new Fnd\Response('fine', 200, ['Set-Cookie' => ['a=1', 'b=2']]);
}
