<?php
// The names that a function can use: answers with a status, and the exceptions that say how a call failed.

namespace Fnd;

/** Asks for a retry: the attempt ends as `transient`. */
class TransientException extends \Exception
{
}

/** Says that a retry is useless: the attempt ends as `failed`. */
class FailedException extends \Exception
{
}

/** Says that the work is not done yet: the function is called again after `[poll] repeat`, with the data as `previous`. */
class ExecuteAgainException extends \Exception
{
    public function __construct(string $message = '', public mixed $data = null)
    {
        parent::__construct($message);
    }
}

/** Says that the caller sent something invalid: the call is answered with status 400 and this text. */
class BadRequest extends \Exception
{
}

/** An answer with a status and headers. The body is text, bytes, null, or anything JSON. */
class Response
{
    public function __construct(public mixed $body = null, public mixed $status = 200, public array $headers = [])
    {
    }
}
