'use strict';
// Each method of an open file gives the result, the error and the file that Node's own gives.

const assert = require('node:assert/strict');
const fs = require('node:fs');
const { once } = require('node:events');
const { test } = require('node:test');
const { skipAttempts, directory, laio, node, outcome, plain, same } = require('./both.js');

const CONTENTS = Buffer.from('The first line\nThe second line\nThe third\n');
const prepare = () => fs.writeFileSync('file', CONTENTS);
const bytes = (length) => Buffer.alloc(length, '.');
const text = ({ buffer, ...counts }) => ({ ...counts, text: Buffer.from(buffer.buffer).toString('latin1') });
const own = (length) => Buffer.from(new ArrayBuffer(length));
const time = new Date('2021-01-01T00:00:00.5Z');

const calls = {
  read: [
    async (h) => text(await h.read(own(8), 0, 8, 0)),
    async (h) => text(await h.read(own(8), 2, 3, 4)),
    async (h) => [text(await h.read(own(5))), text(await h.read(own(5)))],
    async (h) => text(await h.read({ buffer: own(4) })),
    async (h) => text(await h.read(own(9), { offset: 1, length: 4, position: 2 })),
    async (h) => (await h.read()).buffer.length,
    async (h) => text(await h.read(new Uint32Array(2))),
    async (h) => text(await h.read(own(9), 0, 9, 1000)),
    async (h) => text(await h.read(own(100), 0, 100, 3)),
    (h) => h.read(bytes(0)),
    (h) => h.read(bytes(4), 0, 0),
    (h) => h.read(bytes(4), 5),
    (h) => h.read(bytes(4), 0, 5),
    (h) => h.read(bytes(4), -1),
    (h) => h.read('text'),
    (h) => h.read(7),
    (h) => h.read(bytes(4), 'x'),
    async (h) => text(await h.read(own(4), null, null, null)),
    (h) => h.read({ buffer: 7 }),
    async (h) => text(await h.read(own(4), 0, 4, -5)),
    (h) => h.read(bytes(4), 0, 4, 2n).then(text, (error) => error.name),
  ],
  readv: [
    async (h) => plain(await h.readv([bytes(3), bytes(0), bytes(5)], 2)),
    async (h) => plain(await h.readv([bytes(30), bytes(30)])),
    (h) => h.readv([]),
    (h) => h.readv('x'),
    (h) => h.readv([7]),
    async (h) => plain(await h.readv([new Uint16Array(3)], 0)),
  ],
  write: [
    (h) => h.write('text'),
    (h) => h.write('text', 3),
    (h) => h.write('c0ffee', 1, 'hex'),
    (h) => h.write('x', 0, 'nonsense'),
    (h) => h.write('abc', 0, 'hex'),
    (h) => h.write(Buffer.from('bytes'), 1, 3, 2),
    (h) => h.write(Buffer.from('bytes'), { offset: 2, position: 50 }),
    (h) => h.write(new DataView(new ArrayBuffer(3))),
    (h) => h.write(7),
    (h) => h.write({}),
    (h) => h.write(null),
    (h) => h.write(bytes(3), 4),
    (h) => h.write(bytes(3), 0, 4),
    (h) => h.write(bytes(3), -1),
    (h) => h.write(bytes(0)),
    (h) => h.write(''),
    async (h) => [await h.write('one'), await h.write('two')],
    (h) => h.write(bytes(3), 0, 3, null),
  ],
  writev: [
    (h) => h.writev([Buffer.from('a'), Buffer.from('bc')], 4),
    (h) => h.writev([Buffer.from('a'), Buffer.alloc(0)]),
    (h) => h.writev([]),
    (h) => h.writev('x'),
    (h) => h.writev(['x']),
  ],
  stat: [(h) => h.stat(), (h) => h.stat({ bigint: true }), (h) => h.stat(null)],
  readFile: [
    (h) => h.readFile(),
    (h) => h.readFile('utf8'),
    (h) => h.readFile({ encoding: 'hex' }),
    (h) => h.readFile('nonsense'),
    (h) => h.readFile(7),
    async (h) => (await h.read(bytes(4)), h.readFile('utf8')),
    (h) => h.readFile({ signal: AbortSignal.abort() }),
    (h) => h.readFile('buffer'),
  ],
  writeFile: [
    (h) => h.writeFile('new'),
    (h) => h.writeFile(['a', 'b']),
    (h) => h.writeFile(7),
    (h) => h.writeFile('f0', 'hex'),
    (h) => h.writeFile('x', 7),
  ],
  appendFile: [
    (h) => h.appendFile('new'),
    async (h) => (await h.truncate(0), h.appendFile(Buffer.from('x'))),
  ],
  truncate: [
    (h) => h.truncate(),
    (h) => h.truncate(5),
    (h) => h.truncate(-5),
    (h) => h.truncate(100),
    (h) => h.truncate('x'),
    (h) => h.truncate(1.5),
  ],
  sync: [(h) => h.sync()],
  datasync: [(h) => h.datasync()],
  chmod: [
    (h) => h.chmod(0o600),
    (h) => h.chmod('640'),
    (h) => h.chmod('x'),
    (h) => h.chmod(-1),
    (h) => h.chmod(),
  ],
  chown: [
    (h) => h.chown(-1, -1),
    (h) => h.chown(process.getuid(), process.getgid()),
    (h) => h.chown('x', 1),
    (h) => h.chown(1),
  ],
  utimes: [
    async (h) => (await h.utimes(time, 7.25), fs.statSync('file').mtimeMs),
    (h) => h.utimes('x', 1),
    (h) => h.utimes(1),
  ],
  close: [
    async (h) => [await h.close(), h.fd, await h.close()],
    async (h) => (await h.close(), h.read(bytes(1))),
    async (h) => (await h.close(), h.stat()),
    async (h) => (await h.close(), h.writeFile('x')),
    async (h) => (await h.close(), h.utimes(1, 1)),
    async (h) => Promise.all([h.read(bytes(3)).then(plain), h.close(), h.close()]),
    async (h) => {
      const closed = once(h, 'close');
      h.close();
      return closed;
    },
    async (h) => (await h[Symbol.asyncDispose](), h.fd),
  ],
  createReadStream: [
    async (h) => drain(h.createReadStream()),
    async (h) => drain(h.createReadStream({ start: 3, end: 8, encoding: 'utf8' })),
    async (h) => [await drain(h.createReadStream({ autoClose: false })), h.fd > 0],
    async (h) => (await drain(h.createReadStream({ highWaterMark: 5 })), h.fd),
  ],
  createWriteStream: [
    async (h) => fill(h.createWriteStream(), ['one', 'two']),
    async (h) => fill(h.createWriteStream({ start: 4 }), [Buffer.from('x')]),
    async (h) => (await fill(h.createWriteStream({ encoding: 'hex' }), ['f00d']), h.fd),
  ],
  readLines: [
    async (h) => {
      const lines = [];
      for await (const line of h.readLines({ encoding: 'utf8', start: 4 })) lines.push(line);
      return [lines, h.fd];
    },
  ],
  readableWebStream: [
    async (h) => (await web(h.readableWebStream({ type: 'bytes' }))).toString(),
    (h) => [h.readableWebStream(), h.readableWebStream()],
    async (h) => (await h.close(), h.readableWebStream()),
    async (h) => {
      const stream = h.readableWebStream({ type: 'bytes' });
      await h.close();
      return web(stream);
    },
  ],
};

async function drain(stream) {
  const pieces = [];
  for await (const piece of stream) pieces.push(Buffer.from(piece));
  return { data: Buffer.concat(pieces).toString(), bytesRead: stream.bytesRead, path: stream.path };
}

async function fill(stream, pieces) {
  for (const piece of pieces) stream.write(piece);
  stream.end();
  await once(stream, 'close');
  return stream.bytesWritten;
}

async function web(stream) {
  const pieces = [];
  for await (const piece of stream) pieces.push(piece);
  return Buffer.concat(pieces);
}

for (const [name, cases] of Object.entries(calls)) {
  test(name, async (t) => {
    for (const call of cases) {
      await same(t, `${name}: ${call}`, prepare, async (promises) => {
        const handle = await promises.open('file', 'r+');
        try {
          return await call(handle);
        } finally {
          await handle.close();
        }
      });
    }
  });
}

test('every method of FileHandle is compared', async (t) => {
  const handle = await node.open(`${directory(t)}/file`, 'w');
  await handle.close();
  const methods = Object.getOwnPropertyNames(Object.getPrototypeOf(handle));
  const others = ['constructor', 'fd', 'getAsyncId'];
  const missing = methods.filter((name) => !others.includes(name) && !(name in calls));
  assert.deepEqual(missing, []);
});

test('a file given to readFile, writeFile and appendFile', async (t) => {
  for (const call of [
    (p, h) => p.readFile(h, 'utf8'),
    (p, h) => p.writeFile(h, 'new'),
    (p, h) => p.appendFile(h, 'more'),
    (p, h) => p.writeFile(h, 7),
    (p, h) => p.readFile(h, 7),
  ]) {
    await same(t, `${call}`, prepare, async (promises) => {
      const handle = await promises.open('file', 'r+');
      const result = await outcome(() => call(promises, handle));
      await handle.close();
      return result;
    });
  }
});

test('the errors of calls on the wrong kind of file', async (t) => {
  for (const call of [
    (p) => [p, '.', 'r', (h) => h.read(bytes(1))],
    (p) => [p, '.', 'r', (h) => h.readFile()],
    (p) => [p, 'file', 'r', (h) => h.write('x')],
    (p) => [p, 'file', 'w', (h) => h.read(bytes(1))],
    (p) => [p, 'file', 'r', (h) => h.truncate(1)],
    (p) => [p, '/dev/full', 'w', (h) => h.write('x')],
    (p) => [p, 'file', 'r', (h) => h.writev([bytes(1)])],
    (p) => [p, 'file', 'w', (h) => h.readv([bytes(1)])],
  ]) {
    await same(t, `${call}`, prepare, async (promises) => {
      const [, file, flags, use] = call(promises);
      const handle = await promises.open(file, flags);
      const result = await outcome(() => use(handle));
      await handle.close();
      return result;
    });
  }
});

test('a stream that cannot be made does not keep the file open', async (t) => {
  const file = `${directory(t)}/file`;
  const handle = await laio.open(file, 'w');
  assert.throws(() => handle.createReadStream({ start: 'x' }), { code: 'ERR_INVALID_ARG_TYPE' });
  await handle.close();
  assert.equal(handle.fd, -1);
});

test('tryRead gives the bytes, or undefined', { skip: skipAttempts }, async (t) => {
  const file = `${directory(t)}/file`;
  fs.writeFileSync(file, CONTENTS);
  const handle = await laio.open(file);
  let read;
  // What is not in memory any more is read first.
  while ((read = handle.tryRead(bytes(5), 0, 5, 4)) === undefined) await handle.readFile();
  const { bytesRead, buffer } = read;
  assert.deepEqual([bytesRead, buffer.toString()], [5, 'first']);
  assert.throws(() => handle.tryRead(bytes(5), 9), { code: 'ERR_INVALID_ARG_VALUE' });
  await handle.close();
  assert.throws(() => handle.tryRead(bytes(5)), { code: 'EBADF' });
});
