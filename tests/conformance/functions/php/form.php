<?php
function handler($event, $context)
{
    $request = $event->extensions->request;
    $ask = $request->header('X-Ask');
    if ($ask === 'route') {
        return [$request->route, $request->params, $request->remoteAddr];
    }
    if ($ask === 'left') {
        return array_values(array_filter(scandir(getenv('TMPDIR')), fn ($name) => str_starts_with($name, 'upload-')));
    }
    [$forms, $files] = [[], []];
    foreach ($request->forms() as $name => $value) {
        $forms[$name] = $request->forms()->getAll($name);
    }
    foreach ($request->files() as $name => $file) {
        $read = file_get_contents($file->path());
        if ($read !== $file->read() || strlen($read) !== $file->size) {
            throw new Exception('the file differs');
        }
        $start = implode('', array_map(fn ($byte) => mb(ord($byte)), str_split(substr($read, 0, 16))));
        $files[$name] = [$file->filename, $file->contentType, $file->size, $start];
    }
    return ['forms' => (object) $forms, 'files' => (object) $files];
}

// Latin-1 without the extension mbstring.
function mb(int $byte): string
{
    return $byte < 0x80 ? chr($byte) : chr(0xc0 | $byte >> 6) . chr(0x80 | $byte & 0x3f);
}
