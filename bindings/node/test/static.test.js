'use strict';
// The handler of files in `http`, Express and Fastify.

const assert = require('node:assert/strict');
const fs = require('node:fs');
const http = require('node:http');
const { once } = require('node:events');
const { test } = require('node:test');
const { directory } = require('./both.js');
const { staticFiles } = require('../index.js');

const LARGE = Buffer.from(Array.from({ length: 300_000 }, (_, i) => i % 251));

function site(t) {
  const root = directory(t);
  fs.writeFileSync(`${root}/index.html`, '<p>index</p>');
  fs.writeFileSync(`${root}/small.txt`, 'some text');
  fs.writeFileSync(`${root}/large.bin`, LARGE);
  fs.writeFileSync(`${root}/empty`, '');
  fs.writeFileSync(`${root}/small.txt.gz`, 'not really gzip');
  fs.writeFileSync(`${root}/.hidden`, 'hidden');
  fs.mkdirSync(`${root}/dir`);
  fs.symlinkSync('/etc/hostname', `${root}/outside`);
  return root;
}

async function listen(t, handler) {
  const server = http.createServer(handler).listen(0, '127.0.0.1');
  t.after(() => {
    server.closeAllConnections();
    server.close();
  });
  await once(server, 'listening');
  return server.address().port;
}

/** Makes a request. Returns the status, the fields and the body. */
function get(port, path, { method = 'GET', headers = {} } = {}) {
  return new Promise((resolve, reject) => {
    const request = http.request({ port, path, method, headers, host: '127.0.0.1', agent: false });
    request.on('error', reject).on('response', async (response) => {
      const pieces = [];
      try {
        for await (const piece of response) pieces.push(piece);
      } catch (error) {
        return reject(error);
      }
      resolve({ status: response.statusCode, fields: response.headers, body: Buffer.concat(pieces) });
    });
    request.end();
  });
}

test('whole files, with their types and lengths', async (t) => {
  const port = await listen(t, staticFiles(site(t)));
  const small = await get(port, '/small.txt');
  assert.deepEqual([small.status, `${small.body}`], [200, 'some text']);
  assert.equal(small.fields['content-length'], '9');
  assert.match(small.fields['content-type'], /^text\/plain/);
  assert.ok(small.fields.etag && small.fields['last-modified'] && small.fields.date);
  const large = await get(port, '/large.bin');
  assert.ok(large.body.equals(LARGE));
  assert.equal((await get(port, '/')).body.toString(), '<p>index</p>');
  assert.equal((await get(port, '/empty')).body.length, 0);
  assert.equal((await get(port, '/small.txt?query')).status, 200);
  const head = await get(port, '/large.bin', { method: 'HEAD' });
  assert.deepEqual([head.fields['content-length'], head.body.length], ['300000', 0]);
});

test('conditions and ranges', async (t) => {
  const port = await listen(t, staticFiles(site(t)));
  const { fields } = await get(port, '/small.txt');
  const range = (value) => ({ headers: { range: `bytes=${value}` } });
  const same = await get(port, '/small.txt', { headers: { 'if-none-match': fields.etag } });
  assert.deepEqual([same.status, same.body.length], [304, 0]);
  const part = await get(port, '/small.txt', range('5-'));
  assert.deepEqual([part.status, `${part.body}`], [206, 'text']);
  const later = await get(port, '/large.bin', range('100000-299998'));
  assert.ok(later.body.equals(LARGE.subarray(100_000, 299_999)));
  assert.equal((await get(port, '/small.txt', range('99-'))).status, 416);
  for (const ranges of ['0-9,1000-1009', '0-99999,150000-299999']) {
    const several = await get(port, '/large.bin', range(ranges));
    assert.match(several.fields['content-type'], /^multipart\/byteranges/);
    assert.equal(`${several.body.length}`, several.fields['content-length']);
    const [last] = ranges.split(',').slice(-1);
    const [begin, end] = last.split('-').map(Number);
    assert.ok(several.body.includes(LARGE.subarray(begin, end + 1)));
  }
});

test('what is not served', async (t) => {
  const port = await listen(t, staticFiles(site(t)));
  for (const path of ['/absent', '/.hidden', '/outside', '/../small.txt', '/small.txt/x', '/dir/']) {
    const { status, body } = await get(port, path);
    assert.ok([400, 404].includes(status), `${path}: ${status}`);
    assert.ok(body.length > 0);
  }
  const redirect = await get(port, '/dir');
  assert.deepEqual([redirect.status, /dir\/$/.test(redirect.fields.location)], [301, true]);
  assert.equal((await get(port, '/small.txt', { method: 'DELETE' })).status, 405);
});

test('the options', async (t) => {
  const root = site(t);
  const [accept] = [{ headers: { 'accept-encoding': 'gzip' } }];
  const port = await listen(t, staticFiles(root, { precompressed: ['gzip'], dotfiles: true, index: [] }));
  const coded = await get(port, '/small.txt', accept);
  assert.deepEqual([coded.fields['content-encoding'], `${coded.body}`], ['gzip', 'not really gzip']);
  assert.equal((await get(port, '/.hidden')).status, 200);
  assert.equal((await get(port, '/')).status, 404);
  const follow = await listen(t, staticFiles(root, { symlinks: 'follow' }));
  assert.equal((await get(follow, '/outside')).status, 200);
  assert.throws(() => staticFiles(`${root}/absent`), { code: 'ENOENT' });
  assert.throws(() => staticFiles(`${root}/small.txt`), { code: 'ENOTDIR' });
  assert.throws(() => staticFiles(root, { symlinks: 'x' }), /symlinks/);
  assert.throws(() => staticFiles(root, { precompressed: ['x'] }));
  assert.throws(() => staticFiles(7), { code: 'ERR_INVALID_ARG_TYPE' });
});

test('what is not found goes to the next handler', async (t) => {
  const files = staticFiles(site(t));
  const port = await listen(t, (request, response) =>
    files(request, response, (error) => response.end(`next ${error}`)),
  );
  assert.equal((await get(port, '/absent')).body.toString(), 'next undefined');
  assert.equal((await get(port, '/small.txt')).body.toString(), 'some text');
});

test('a file that becomes shorter ends the connection', async (t) => {
  const root = site(t);
  fs.truncateSync(`${root}/large.bin`, 50_000_000);
  const files = staticFiles(root);
  const port = await listen(t, (request, response) => {
    response.once('drain', () => fs.truncateSync(`${root}/large.bin`, 10));
    return files(request, response);
  });
  await assert.rejects(get(port, '/large.bin'), { code: 'ECONNRESET' });
});

test('a client that leaves ends the reading, and closes the file', async (t) => {
  const root = site(t);
  fs.truncateSync(`${root}/large.bin`, 100_000_000);
  const open = () =>
    fs.readdirSync('/proc/self/fd').filter((fd) => {
      try {
        return fs.readlinkSync(`/proc/self/fd/${fd}`) === `${fs.realpathSync(root)}/large.bin`;
      } catch {
        return false;
      }
    }).length;
  const files = staticFiles(root);
  let answered;
  const port = await listen(t, (request, response) => {
    answered = files(request, response);
  });
  const request = http.get({ port, path: '/large.bin', host: '127.0.0.1', agent: false });
  const [response] = await once(request, 'response');
  assert.equal(open(), 1);
  response.destroy();
  await answered;
  assert.equal(open(), 0);
});

test('many responses at the same time', async (t) => {
  const root = site(t);
  const bodies = Array.from({ length: 8 }, (_, i) => Buffer.alloc(20_000 + 50_000 * i, `${i}.`));
  for (const [i, body] of bodies.entries()) fs.writeFileSync(`${root}/${i}`, body);
  const port = await listen(t, staticFiles(root));
  const got = await Promise.all(Array.from({ length: 160 }, (_, i) => get(port, `/${i % 8}`)));
  for (const [i, { body }] of got.entries()) assert.ok(body.equals(bodies[i % 8]), `response ${i}`);
});

test('a middleware may keep what is sent', async (t) => {
  const root = site(t);
  const bodies = ['a', 'b', 'c'].map((letter) => Buffer.alloc(100_000, letter));
  for (const [i, body] of bodies.entries()) fs.writeFileSync(`${root}/${i}`, body);
  const files = staticFiles(root);
  const kept = [];
  const port = await listen(t, (request, response) => {
    const { end } = response;
    response.end = (chunk, ...more) => {
      kept.push(chunk);
      return end.call(response, chunk, ...more);
    };
    files(request, response);
  });
  for (const i of bodies.keys()) await get(port, `/${i}`);
  for (const [i, body] of bodies.entries()) assert.ok(kept[i].equals(body));
});

const installed = (name) => {
  try {
    return require(name);
  } catch {
    return undefined;
  }
};

test('in Express', { skip: !installed('express') && 'express is not installed' }, async (t) => {
  const app = installed('express')();
  app.use('/static', staticFiles(site(t)));
  app.use((request, response) => response.status(404).send('of the application'));
  const port = await listen(t, app);
  assert.equal((await get(port, '/static/small.txt')).body.toString(), 'some text');
  assert.equal((await get(port, '/static/')).body.toString(), '<p>index</p>');
  assert.ok((await get(port, '/static/large.bin')).body.equals(LARGE));
  assert.equal((await get(port, '/static/absent')).body.toString(), 'of the application');
});

test('in Fastify', { skip: !installed('fastify') && 'fastify is not installed' }, async (t) => {
  const app = installed('fastify')();
  t.after(() => app.close());
  app.register(staticFiles(site(t)).fastify, { prefix: '/static' });
  await app.listen({ port: 0, host: '127.0.0.1' });
  const { port } = app.server.address();
  assert.equal((await get(port, '/static/small.txt')).body.toString(), 'some text');
  assert.ok((await get(port, '/static/large.bin')).body.equals(LARGE));
  assert.equal((await get(port, '/static/absent')).status, 404);
});
