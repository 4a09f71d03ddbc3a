<?php
// The shim of runtime php: loads a function's file and serves it over descriptor 3 (runtimes/PROTOCOL.md).
//
// Here is what loads the file: at the top level, so that its variables are global as in a script. The rest is in `lib`, in
// namespaces of their own.

foreach (['fnd', 'wire', 'upload', 'form', 'request', 'event', 'answer', 'worker'] as $fnd_file) {
    require __DIR__ . "/lib/$fnd_file.php";
}
FndWorker\Worker::begin($argv[1]);
unset($fnd_file);
$argv = [$argv[1]];
$argc = 1;
try {
    require $argv[0];
    FndWorker\Worker::find();
} catch (Throwable $fnd_error) {
    FndWorker\Worker::cannot($fnd_error);
}
FndWorker\Worker::serve();
