<?php
// A script: each run is a process of its own.
//
// Standard input is the payload, and so is the variable DATA. Standard output is the result; standard error is the log.
// Exit codes: 0 success, 75 try again later, 65 never try again, others an error.
$payload = json_decode(stream_get_contents(STDIN), flags: JSON_THROW_ON_ERROR);
fwrite(STDERR, 'run ' . getenv('FND_INVOCATION') . ' attempt ' . getenv('FND_ATTEMPT') . "\n");
echo json_encode(['words' => count(preg_split('/\s+/', $payload->text, -1, PREG_SPLIT_NO_EMPTY))]), "\n";
