'use strict';
// Requests per second of processor time of a static handler: laio's in Express, in Fastify and in `http`, against
// express.static and @fastify/static. Each server is a process of its own; rounds are interleaved, medians.
// `bench/static` installs the others and runs this.
// usage: bench/static

const { fork } = require('node:child_process');
const { once } = require('node:events');
const fs = require('node:fs');
const http = require('node:http');
const net = require('node:net');
const os = require('node:os');
const path = require('node:path');

const ROUNDS = 5;
const CONNECTIONS = 16;
const SECOND = 1e6;

const servers = {
  'express.static': (root) => {
    const express = require('express');
    return http.createServer(express().use(express.static(root)));
  },
  'laio in Express': (root) => {
    const { staticFiles } = require('../index.js');
    return http.createServer(require('express')().use(staticFiles(root)));
  },
  'express.static in http': (root) => {
    const handler = require('express').static(root);
    return http.createServer((request, response) => handler(request, response, () => response.destroy()));
  },
  '@fastify/static': (root) => withFastify((app) => app.register(require('@fastify/static'), { root })),
  'laio in Fastify': (root) => withFastify((app) => app.register(require('../index.js').staticFiles(root).fastify)),
  'laio in http': (root) => http.createServer(require('../index.js').staticFiles(root)),
};

async function withFastify(add) {
  const app = require('fastify')();
  add(app);
  await app.ready();
  return app.server;
}

/** The server process: tells its port, and its processor time for each message. */
async function serve(name, root) {
  const server = await servers[name](root);
  server.listen(0, '127.0.0.1', () => process.send(server.address().port));
  process.on('message', () => {
    const { user, system } = process.cpuUsage();
    process.send(user + system);
  });
  process.on('disconnect', () => process.exit());
}

/** Makes requests one after the other on a connection. All responses have the length of the first one. */
function request(port, target, count) {
  const text = `GET ${target} HTTP/1.1\r\nHost: localhost\r\n\r\n`;
  return new Promise((resolve, reject) => {
    const socket = net.connect(port, '127.0.0.1');
    let [got, left, length] = [0, count, undefined];
    socket.on('connect', () => socket.write(text)).on('error', reject);
    socket.on('data', (data) => {
      length ??= lengthOf(data.toString('latin1'));
      got += data.length;
      if (got < length) return;
      got = 0;
      if (--left > 0) socket.write(text);
      else socket.end(resolve);
    });
  });
}

function lengthOf(start) {
  const [, status, body] = /^HTTP\/1.1 (\d+) [^]*?\r\ncontent-length: (\d+)\r\n/i.exec(start);
  if (status !== '200') throw new Error(`status ${status}`);
  return start.indexOf('\r\n\r\n') + 4 + Number(body);
}

async function measure({ child, port }, target, count) {
  const used = async () => {
    child.send('used');
    return (await once(child, 'message'))[0];
  };
  const before = await used();
  const each = Math.ceil(count / CONNECTIONS);
  await Promise.all(Array.from({ length: CONNECTIONS }, () => request(port, target, each)));
  return (each * CONNECTIONS * SECOND) / ((await used()) - before);
}

async function main() {
  const root = fs.mkdtempSync(path.join(os.tmpdir(), 'laio-static-'));
  for (const [name, size] of [
    ['1k.txt', 1024],
    ['100k.txt', 100 * 1024],
  ]) {
    fs.writeFileSync(`${root}/${name}`, Buffer.alloc(size, 'x'));
    // The entity tag of a file that was changed just now is longer, for a while.
    fs.utimesSync(`${root}/${name}`, 1e9, 1e9);
  }
  const started = {};
  for (const name of Object.keys(servers)) {
    const child = fork(__filename, [name, root]);
    const [port] = await once(child, 'message');
    started[name] = { child, port };
  }
  for (const [target, count] of [
    ['/1k.txt', 2400],
    ['/100k.txt', 800],
  ]) {
    const found = Object.fromEntries(Object.keys(servers).map((name) => [name, []]));
    for (let round = -1; round < ROUNDS; round++) {
      for (const [name, server] of Object.entries(started)) {
        const rate = await measure(server, target, count);
        if (round >= 0) found[name].push(rate);
      }
    }
    for (const [name, rates] of Object.entries(found)) {
      const median = rates.sort((a, b) => a - b)[ROUNDS >> 1];
      console.log(`${target} ${name}: ${Math.round(median)} requests per second of processor time`);
    }
  }
  for (const { child } of Object.values(started)) child.disconnect();
  fs.rmSync(root, { recursive: true });
}

if (process.send) serve(...process.argv.slice(2));
else main();
