<?php
// A program that serves HTTP: fnd starts it when it is called, keeps it running, and passes requests to it.
//
// It listens on the port in $PORT: first as a script that becomes the server of PHP, then as that server's file for each
// request. What it prints with error_log is the log.
if (PHP_SAPI === 'cli') {
    pcntl_exec(PHP_BINARY, ['-S', '127.0.0.1:' . getenv('PORT'), __FILE__]);
}

header('content-type: application/json');
$body = file_get_contents('php://input');
echo json_encode(['path' => $_SERVER['REQUEST_URI'], 'bytes' => strlen($body)], JSON_UNESCAPED_SLASHES);
