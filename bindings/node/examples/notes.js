'use strict';
// A web application: a page with all notes of a directory, and their first lines. Run it with the functions of Node,
// or with those of laio:
//
//     node examples/notes.js node:fs/promises DIRECTORY
//     node examples/notes.js laio/promises DIRECTORY
//
// With `--measure` at the end it asks itself for 500 pages, and prints the time and the processor time of one.

const http = require('node:http');
const path = require('node:path');

const [, , name = 'laio/promises', directory = '.', measured] = process.argv;
const { readdir, stat, open } = require(name === 'laio/promises' ? '../promises.js' : name);

async function firstLine(file) {
  const handle = await open(file);
  try {
    const { bytesRead, buffer } = await handle.read(Buffer.alloc(200), 0, 200, 0);
    return buffer.toString('utf8', 0, bytesRead).split('\n', 1)[0];
  } finally {
    await handle.close();
  }
}

async function describe(note) {
  const file = path.join(directory, note);
  const status = await stat(file);
  return status.isFile() ? `${note}\t${status.size}\t${await firstLine(file)}\n` : '';
}

async function page() {
  const notes = await readdir(directory);
  return (await Promise.all(notes.map(describe))).join('');
}

const server = http.createServer(async (request, response) => {
  try {
    response.setHeader('Content-Type', 'text/plain; charset=utf-8').end(await page());
  } catch (error) {
    response.writeHead(500).end(`${error.message}\n`);
  }
});

async function measure(port) {
  const pages = 500;
  const [begin, used] = [process.hrtime.bigint(), process.cpuUsage()];
  for (let i = 0; i < pages; i++) await (await fetch(`http://127.0.0.1:${port}/`)).text();
  const { user, system } = process.cpuUsage(used);
  const took = Number(process.hrtime.bigint() - begin) / 1e6;
  console.log(`${name}: ${(took / pages).toFixed(2)} ms, processor ${((user + system) / pages / 1e3).toFixed(2)} ms`);
  process.exit();
}

server.listen(measured ? 0 : 8080, '127.0.0.1', () => {
  const { port } = server.address();
  if (measured) measure(port);
  else console.log(`http://127.0.0.1:${port}/`);
});
