<?php
function handler($event, $context)
{
    return missing_bracket(
}
