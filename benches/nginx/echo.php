<?php
// Says which script was executed, and with what.
header('Content-Type: application/json');
header('X-Answered-By: program');
$root = $_SERVER['DOCUMENT_ROOT'];
echo json_encode([
    'script' => substr($_SERVER['SCRIPT_FILENAME'], strlen($root)),
    'query' => $_SERVER['QUERY_STRING'],
    'uri' => $_SERVER['REQUEST_URI'],
    'info' => $_SERVER['PATH_INFO'] ?? '',
]);
