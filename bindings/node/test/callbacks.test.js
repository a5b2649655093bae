'use strict';
// Each function with a callback, and each stream, gives the results, errors and files that Node's gives.

const assert = require('node:assert/strict');
const fs = require('node:fs');
const { test } = require('node:test');
const { directory, outcome, plain, same } = require('./both.js');
const laio = require('../index.js');

const prepare = () => {
  fs.writeFileSync('file', 'The first line\nThe second line\n');
  fs.mkdirSync('dir');
  fs.symlinkSync('file', 'link');
};

/**
 * What the callback of a call gets, error and values. What the call throws is thrown, and so are errors of wrong
 * arguments, some of which laio gives to the callback.
 */
const got = (call, ...args) =>
  new Promise((resolve, reject) => {
    call(...args, (...results) => {
      const [error, ...values] = results;
      if (error?.code?.startsWith('ERR_')) reject(error);
      else if (error instanceof Error) resolve(outcome(() => Promise.reject(error)));
      else resolve([error, ...values.map(plain)]);
    })?.catch?.(reject);
  });

const opening = async (module, flags, ...calls) => {
  const [, fd] = await got(module.open, 'file', flags);
  const results = [];
  for (const [name, ...args] of calls) results.push(await got(module[name], fd, ...args));
  return [...results, await got(module.close, fd)];
};

const bytes = () => Buffer.alloc(9, '.');
const cases = {
  access: [['file'], ['absent'], ['file', fs.constants.X_OK], [7]],
  appendFile: [['file', 'x'], ['new', 'x', { mode: 0o600 }], ['dir', 'x'], ['file', 7]],
  chmod: [['file', 0o600], ['absent', 0o600]],
  chown: [['file', -1, -1], ['absent', 1, 1]],
  copyFile: [['file', 'copy'], ['file', 'file', 1], ['absent', 'copy']],
  cp: [['file', 'copy'], ['dir', 'copy'], ['dir', 'copy', { recursive: true }], ['absent', 'copy'], [7, 'copy']],
  lchown: [['link', -1, -1]],
  link: [['file', 'other'], ['file', 'dir']],
  lstat: [['link'], ['absent'], ['link', { bigint: true }]],
  lutimes: [['link', 1, 2]],
  mkdir: [['new'], ['new', 0o700], ['dir'], ['a/b/c', { recursive: true }], ['dir', { recursive: true }]],
  mkdtemp: [['absent\0'], [7]],
  open: [['absent'], [null], ['file', 'nonsense']],
  opendir: [['absent'], ['file'], [7]],
  readFile: [['file'], ['file', 'utf8'], ['absent'], ['dir'], ['file', 'nonsense'], [{}], [undefined, 'utf8']],
  readdir: [['.'], ['.', { withFileTypes: true }], ['file'], ['.', 'buffer']],
  readlink: [['link'], ['file'], ['link', 'buffer']],
  rename: [['file', 'other'], ['file', 'dir'], ['absent', 'x']],
  rm: [['file'], ['absent'], ['absent', { force: true }], ['dir'], ['dir', { recursive: true }]],
  rmdir: [['dir'], ['file']],
  stat: [['file'], ['link'], ['absent'], ['file', { bigint: true }]],
  statfs: [['absent'], ['/proc'], ['/proc', { bigint: true }]],
  symlink: [['file', 'other'], ['file', 'link']],
  truncate: [['file', 3], ['file'], ['absent']],
  unlink: [['file'], ['dir']],
  utimes: [['file', 1, 2], ['absent', 1, 2]],
  writeFile: [['file', 'x'], ['new', Buffer.from('x')], ['dir', 'x'], ['file', 'y', { flag: 'wx' }]],
};

const filesCases = {
  close: [],
  fchmod: ['r', ['fchmod', 0o600]],
  fchown: ['r', ['fchown', -1, -1]],
  fdatasync: ['r', ['fdatasync']],
  fstat: ['r', ['fstat'], ['fstat', { bigint: true }]],
  fsync: ['r', ['fsync']],
  ftruncate: ['r+', ['ftruncate', 5], ['ftruncate']],
  futimes: ['r', ['futimes', 1, 2]],
  read: ['r', ['read', bytes(), 0, 9, 2], ['read', { buffer: bytes() }], ['read', bytes(), 3, 4, null]],
  readFile: ['r', ['readFile'], ['readFile', 'utf8']],
  readv: ['r', ['readv', [bytes(), bytes()], 1], ['readv', [bytes()]]],
  write: ['r+', ['write', 'text', 3, 'utf8'], ['write', Buffer.from('abc'), 1, 2, 0], ['write', 'x']],
  writeFile: ['r+', ['writeFile', 'new']],
  appendFile: ['a', ['appendFile', 'more']],
  writev: ['r+', ['writev', [Buffer.from('a'), Buffer.from('b')], 2]],
};

for (const name of new Set([...Object.keys(cases), ...Object.keys(filesCases)])) {
  test(name, async (t) => {
    for (const args of cases[name] ?? []) {
      await same(t, `${name} ${args}`, prepare, (module) => got(module[name], ...args), [laio, fs]);
    }
    const [flags = 'r', ...calls] = filesCases[name] ?? [];
    await same(t, name, prepare, (module) => opening(module, flags, ...calls), [laio, fs]);
  });
}

test('every function with a callback is compared', () => {
  const names = Object.keys(laio).filter((name) => typeof fs[name] === 'function' && !name.startsWith('create'));
  assert.deepEqual(names.filter((name) => !(name in cases) && !(name in filesCases)), []);
});

test('an error of a callback is not an error of the call', async () => {
  const found = await new Promise((resolve) => {
    const uncaught = (error) => resolve(error.message);
    const before = process.listeners('uncaughtException');
    process.removeAllListeners('uncaughtException');
    process.once('uncaughtException', (error) => {
      for (const listener of before) process.on('uncaughtException', listener);
      uncaught(error);
    });
    laio.stat('.', () => {
      throw new Error('of the callback');
    });
  });
  assert.equal(found, 'of the callback');
});

test('a call without its callback throws', () => {
  for (const name of ['readFile', 'stat', 'open', 'mkdir']) {
    assert.throws(() => laio[name]('.'), { code: 'ERR_INVALID_ARG_TYPE' });
  }
});

test('a file that Node has opened', async (t) => {
  await same(
    t,
    'fd of Node',
    prepare,
    async (module) => {
      const fd = fs.openSync('file', 'r+');
      const results = [await got(module.read, fd, bytes(), 0, 9, 0), await got(module.fstat, fd)];
      return [...results, await got(module.writeFile, fd, 'x'), await got(module.close, fd)];
    },
    [laio, fs],
  );
});

async function drain(stream) {
  const pieces = [];
  for await (const piece of stream) pieces.push(Buffer.from(piece));
  return [Buffer.concat(pieces).toString(), stream.bytesRead, stream.path, typeof stream.fd];
}

const fill = (stream, pieces) =>
  new Promise((resolve, reject) => {
    stream.on('error', reject).on('close', () => resolve([stream.bytesWritten, stream.path]));
    for (const piece of pieces) stream.write(piece);
    stream.end();
  });

test('createReadStream and createWriteStream', async (t) => {
  for (const call of [
    (module) => drain(module.createReadStream('file')),
    (module) => drain(module.createReadStream('file', 'hex')),
    (module) => drain(module.createReadStream('file', { start: 3, end: 8, highWaterMark: 2 })),
    (module) => drain(module.createReadStream('absent')),
    (module) => drain(module.createReadStream('dir')),
    (module) => module.createReadStream('file', { start: 'x' }),
    (module) => drain(module.createReadStream('file', { signal: AbortSignal.abort() })),
    async (module) => drain(module.createReadStream('', { fd: (await got(module.open, 'file'))[1] })),
    async (module) => drain(module.createReadStream('', { fd: fs.openSync('file') })),
    async (module) => drain(module.createReadStream('', { fd: await module.promises.open('file') })),
    (module) => fill(module.createWriteStream('new'), ['one', Buffer.from('two')]),
    (module) => fill(module.createWriteStream('file', { flags: 'r+', start: 4 }), ['x']),
    (module) => fill(module.createWriteStream('file', { flags: 'a', mode: 0o600, flush: true }), ['x', 'y']),
    (module) => fill(module.createWriteStream('absent/file'), ['x']),
  ]) {
    await same(t, `${call}`, prepare, call, [laio, fs]);
  }
});

test('readRanges reads parts of a file', async (t) => {
  const file = `${directory(t)}/file`;
  fs.writeFileSync(file, Buffer.from(Array.from({ length: 1000 }, (_, i) => i % 256)));
  const contents = fs.readFileSync(file);
  const ranges = [
    { position: 10, length: 5 },
    { position: 0, length: 1000 },
    { position: 990, length: 50 },
    { position: 2000, length: 3 },
  ];
  const expected = ranges.map(({ position, length }) => contents.subarray(position, position + length));
  assert.deepEqual(await laio.readRanges(file, ranges), expected);
  const handle = await laio.promises.open(file);
  assert.deepEqual(await laio.readRanges(handle, ranges), expected);
  assert.ok(handle.fd > 0, 'a file that was given stays open');
  await handle.close();
  await assert.rejects(laio.readRanges(`${file}-absent`, ranges), { code: 'ENOENT' });
  for (const wrong of [{ position: -1, length: 1 }, { position: 0, length: -1 }, { position: 0.5, length: 1 }, {}]) {
    await assert.rejects(laio.readRanges(file, [...ranges, wrong]), { code: 'ERR_OUT_OF_RANGE' });
  }
});
