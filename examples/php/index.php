<?php
// A front controller with permalinks, as WordPress and most frameworks have: every path that is no file comes here.
//
//     laio serve --php unix:/run/php/php-fpm.sock --try '{path},{path}/,/index.php?{query}' examples/php

$path = rawurldecode(parse_url($_SERVER['REQUEST_URI'], PHP_URL_PATH));

if ($path === '/') {
    $title = 'Posts';
    $text = '<a href="/2026/11/lazy-io/">Lazy I/O</a>';
} elseif (preg_match('#^/(\d{4})/(\d{2})/([^/]+)/$#', $path, $parts)) {
    [, $year, $month, $name] = $parts;
    $title = ucfirst(str_replace('-', ' ', $name));
    $text = "A post of $year-$month, asked for as {$parts[0]}";
} else {
    http_response_code(404);
    $title = 'No such page';
    $text = "There is nothing at $path";
}

header('Content-Type: text/html; charset=utf-8');
$safe = fn (string $text): string => htmlspecialchars($text, ENT_QUOTES);
?>
<!doctype html>
<html lang="en">
<link rel="stylesheet" href="/style.css">
<title><?= $safe($title) ?></title>
<h1><?= $safe($title) ?></h1>
<p><?= $path === '/' ? $text : $safe($text) ?></p>
<p>query: <?= $safe($_SERVER['QUERY_STRING'] ?? '') ?></p>
</html>
