<?php
function handler($event, $context)
{
    return new Fnd\Response(['made' => true], 201, ['X-Name' => 'value']);
}
